"""The walk: its notebooks, stages and results."""

from helpers.course import results
from helpers.course.set_up import banner
from helpers.course.stages import stage_folder
from helpers.course.syllabus import LESSONS, STAGES
from helpers.course.walk_figure import walk
from helpers.course.which_model import choices

__all__ = [
    "LESSONS",  # the notebooks
    "STAGES",  # the models they train
    "banner",  # where am I
    "choices",  # which model fits which machine
    "results",  # the table of the walk
    "stage_folder",  # a finished model
    "walk",  # the figure of them all
]
