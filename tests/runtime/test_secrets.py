"""Tokens: where they are looked for, and what is said where there is none."""

import os
import sys
import types

import pytest

from helpers import runtime
from helpers.runtime import platform


@pytest.fixture(autouse=True)
def laptop(monkeypatch, tmp_path):
    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "COURSE_PRESET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))


def test_token_from_the_environment(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_1")
    assert runtime.token() == "hf_1"
    monkeypatch.setenv("HF_TOKEN", " hf_1\n")
    assert runtime.token() == "hf_1"
    monkeypatch.setenv("HF_TOKEN", " \n")
    with pytest.raises(platform.TokenMissing):
        runtime.token()


@pytest.mark.parametrize(
    "variable, advice",
    [
        (None, "huggingface.co/settings/tokens"),
        ("COLAB_RELEASE_TAG", "Click the key"),
        ("KAGGLE_KERNEL_RUN_TYPE", "Add-ons"),
    ],
)
def test_a_missing_token_is_explained(monkeypatch, variable, advice):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    fake_secrets(monkeypatch, {})
    if variable:
        monkeypatch.setenv(variable, "1")
    with pytest.raises(platform.TokenMissing, match=advice) as caught:
        runtime.token("HF_TOKEN")
    assert "HF_TOKEN" in str(caught.value)


@pytest.mark.parametrize("variable", ["COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"])
def test_the_platforms_secret_comes_first(monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("HF_TOKEN", "from the environment")
    fake_secrets(monkeypatch, {"HF_TOKEN": "secret"})
    assert runtime.token() == "secret"
    fake_secrets(monkeypatch, {})
    assert runtime.token() == "from the environment"


def fake_secrets(monkeypatch, secrets):
    """Stand-ins for google.colab.userdata and kaggle_secrets."""

    class SecretNotFoundError(Exception):
        pass

    def get(name):
        if name not in secrets:
            raise SecretNotFoundError(name)
        return secrets[name]

    userdata = types.SimpleNamespace(
        get=get,
        SecretNotFoundError=SecretNotFoundError,
        NotebookAccessError=PermissionError,
    )
    colab = types.ModuleType("google.colab")
    colab.userdata = userdata
    google = types.ModuleType("google")
    google.colab = colab
    kaggle = types.ModuleType("kaggle_secrets")
    kaggle.UserSecretsClient = lambda: types.SimpleNamespace(get_secret=get)
    monkeypatch.setitem(sys.modules, "google", google)
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    monkeypatch.setitem(sys.modules, "kaggle_secrets", kaggle)
    monkeypatch.setattr(platform, "where", _where_by_variable)


def _where_by_variable():
    if "COLAB_RELEASE_TAG" in os.environ:
        return "colab"
    return "kaggle" if "KAGGLE_KERNEL_RUN_TYPE" in os.environ else "laptop"
