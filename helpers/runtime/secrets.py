"""Tokens for gated models: from Colab, Kaggle or the environment."""

import os

from helpers.runtime.environment import where


class TokenMissing(LookupError):
    """No token of this name was found; the message says where to put one."""


def token(name: str = "HF_TOKEN") -> str:
    """A secret by name: Colab's secrets, then Kaggle's, then the environment.

    Raises:
      TokenMissing: it is nowhere; says what to do on this platform.
    """
    # A line's end pasted with it would come back in the clear, in a client's error.
    found = (_platform_secret(name) or os.environ.get(name) or "").strip()
    if found:
        return found
    raise TokenMissing(
        f"No token {name} was found. {_WHERE_TO_PUT[where()].format(name=name)} "
        "The default models of this course need no token; only gated ones (Gemma 3 and "
        "Llama) do: accept their licence once on their Hugging Face page."
    )


_WHERE_TO_PUT = {
    "colab": "Click the key in Colab's left bar, add a secret called {name}, and allow "
    "this notebook to read it.",
    "kaggle": "Open Add-ons → Secrets, add one called {name}, and attach it to this "
    "notebook.",
    "laptop": "Make one at huggingface.co/settings/tokens, then start Jupyter with "
    "{name}=hf_… in its environment.",
}


def _platform_secret(name: str) -> str | None:
    """The secret as the platform keeps it; None where it has none of this name."""
    if where() == "colab":
        from google.colab import userdata

        try:
            return userdata.get(name)
        except (userdata.SecretNotFoundError, userdata.NotebookAccessError):
            return None
    if where() == "kaggle":
        from kaggle_secrets import UserSecretsClient

        try:
            return UserSecretsClient().get_secret(name)
        except Exception:  # it raises its own error, or urllib's when there is no net
            return None
    return None
