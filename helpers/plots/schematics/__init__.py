"""Schematics: ideas of the course that have a shape, drawn in one style."""

from helpers.plots.schematics.asynchronous import trainer_and_workers
from helpers.plots.schematics.caches import kv_cache, paged_cache
from helpers.plots.schematics.distilling import teacher_and_student
from helpers.plots.schematics.groups import grpo_cycle, preferences
from helpers.plots.schematics.machines import chip_to_network, parallel
from helpers.plots.schematics.prompts import shared_prompt, who_wrote
from helpers.plots.schematics.road import app_conversation, walk
from helpers.plots.schematics.speculating import speculation
from helpers.plots.schematics.training_memory import memory

__all__ = [
    "app_conversation",  # person, app, model, tool, log
    "chip_to_network",  # chip, host, pod, network
    "grpo_cycle",  # from prompts to new weights and back
    "kv_cache",  # prefill, then one column a token
    "memory",  # weights, gradients, moments, activations, cache
    "paged_cache",  # columns in pages
    "parallel",  # what is cut, what is sent
    "preferences",  # DPO's pair beside GRPO's group
    "shared_prompt",  # a prompt computed once
    "speculation",  # guessed by one, checked by the other
    "teacher_and_student",  # on-policy distillation
    "trainer_and_workers",  # who holds which piece, and how old
    "walk",  # the course in one picture
    "who_wrote",  # said and heard: the loss mask
]
