"""The food-logging assistant."""

from helpers.app import meal_log, models, page, views
from helpers.app.chat import BackendError, Event, converse, portions
from helpers.app.server import ChatServer, OpenAIServer

__all__ = [
    "BackendError",  # a model does not answer; what to do
    "ChatServer",  # a model of this machine, served
    "Event",  # one thing that happened in a conversation
    "OpenAIServer",  # a model on a server
    "converse",  # picture in, answer out
    "meal_log",  # a log of meals in SQLite
    "models",  # models of this machine, and facts about all
    "page",  # the assistant as a web page
    "portions",  # what an answer logs
    "views",  # events and meals as HTML, tables and plots
]
