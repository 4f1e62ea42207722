"""The food-logging assistant."""

from helpers.app import food_app, local_model, meal_view
from helpers.app.assistant import BackendError, Event, converse, portions
from helpers.app.chat_server import ChatServer
from helpers.app.meal_log import MealLog
from helpers.app.openai_server import OpenAIServer

__all__ = [
    "BackendError",  # a model cannot be asked; what to do
    "ChatServer",  # a model of this machine, served
    "Event",  # one thing that happened in a conversation
    "MealLog",  # what was eaten
    "OpenAIServer",  # a model on a server
    "converse",  # picture in, answer out
    "food_app",  # the page
    "local_model",  # a model of this machine
    "meal_view",  # tables and plots of meals
    "portions",  # what an answer logs
]
