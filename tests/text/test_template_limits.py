"""Templates that would fill the memory or never end are refused, all others are not."""

import time

import pytest
import small_gguf

from helpers.text import template_limits
from helpers.text.template_limits import TemplateRefused, require_modest

NESTED = (
    "{% for i in range(99999) %}{% for j in range(99999) %}X{% endfor %}{% endfor %}"
)
HARMFUL = {
    "writes for ever": NESTED.replace("X", "xxxxxxxxxx"),
    "runs for ever": NESTED.replace("X", ""),
    "doubles a text": "{% set ns = namespace(a='x') %}{% for i in range(60) %}"
    "{% set ns.a = ns.a ~ ns.a %}{% endfor %}{{ ns.a|length }}",
    "one huge text": "{{ ('x' * 9999999999)|length }}",
    "hidden behind a mark": "{% generation %}" + NESTED + "{% endgeneration %}",
    "only where it is to answer": "{% if add_generation_prompt %}"
    + NESTED
    + "{% endif %}",
    "only for other words than a fixed look has": "{% if messages[0].content != "
    "'question' %}" + NESTED + "{% endif %}",
    "only where more is said": "{% if messages|length > 4 %}" + NESTED + "{% endif %}",
    "after a conversation that it refuses": "{% if messages|length < 3 %}{{ 1 / 0 }}"
    "{% endif %}" + NESTED,
}


@pytest.mark.parametrize("how", HARMFUL)
def test_a_template_without_end_is_refused(how, monkeypatch):
    monkeypatch.setattr(template_limits, "SECONDS", 2)  # before it is given up, 4
    began = time.monotonic()
    with pytest.raises(TemplateRefused, match="needs more than"):
        require_modest(HARMFUL[how])
    assert time.monotonic() - began < 30


def test_a_template_longer_than_any_is_refused_unread():
    with pytest.raises(TemplateRefused, match="262,145 characters"):
        require_modest(" " * (template_limits.LONGEST + 1))


MODEST = {
    "that of a model": small_gguf.CHATML,
    "one that refuses our conversation": "{{ raise_exception('no') }}{{ 1 / 0 }}",
    "one with a mistake": "{% for %}",
    "one that stops in a loop": "{% for m in messages %}{% break %}{% endfor %}",
    "nothing": "",
}


@pytest.mark.parametrize("name", MODEST)
def test_other_templates_pass(name):
    require_modest(MODEST[name])
