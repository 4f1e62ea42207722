"""The walk: its notebooks, stages and results."""

from helpers.course import results  # tables and the figure of the walk
from helpers.course.stages import (
    banner,  # where a notebook runs
    stage_folder,  # a finished model
    upload_button,  # for a file of rows
)
from helpers.course.syllabus import (
    LESSONS,  # the notebooks
    STAGES,  # the models they train
)
