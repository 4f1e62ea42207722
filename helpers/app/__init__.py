"""The food-logging assistant."""

from helpers.app import (
    meal_log,  # a log of meals in SQLite
    models,  # models of this machine, and facts about all
    page,  # the assistant as a web page
    views,  # events and meals as HTML, tables and plots
)
from helpers.app.chat import (
    BackendError,  # a model does not answer; what to do
    Event,  # one thing that happened in a conversation
    converse,  # picture in, answer out
    portions,  # what an answer logs
)
from helpers.app.server import (
    ChatServer,  # a model of this machine, served
    OpenAIServer,  # a model on a server
)
