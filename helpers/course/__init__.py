"""The walk: its notebooks, stages and results."""

from helpers.course import results
from helpers.course.stages import banner, stage_folder, upload_button
from helpers.course.syllabus import LESSONS, STAGES

__all__ = [
    "LESSONS",  # the notebooks
    "STAGES",  # the models they train
    "banner",  # where a notebook runs
    "results",  # tables and the figure of the walk
    "stage_folder",  # a finished model
    "upload_button",  # for a file of rows
]
