"""The page that `make app` opens: the food-logging assistant with this course's models.

Voilà runs this file as the one cell of a notebook, and shows what it displays.
"""

from IPython.display import display

from helpers.app import food_app

display(food_app.app(food_app.course_models()))
