"""The settings of a folder of adapters, as `peft` writes them, read and checked."""

import json
import pathlib

from helpers.model.folder import ADAPTERS, WeightsError

# Settings that would make other numbers of the same tensors, and what is fine.
PLAIN = {
    "bias": ("none",),
    "use_dora": (False,),
    "lora_bias": (False,),
    "fan_in_fan_out": (False,),
    "use_qalora": (False,),
    "rank_pattern": ({},),
    "alpha_pattern": ({},),
    "modules_to_save": ([],),
    "layers_to_transform": ([],),
    "layer_replication": ([],),
    "trainable_token_indices": ([],),
    "target_parameters": ([],),
    "alora_invocation_tokens": ([],),
    "use_bdlora": (False,),
    "arrow_config": (),
    "monteclora_config": (),
}
# These ways to begin change the base as well, so that the adapters fit another.
OTHER_BASES = ("pissa", "olora", "corda", "loftq", "lora_ga")
MOST = 2**24  # no rank or factor of adapters that anybody trained


def of(folder: pathlib.Path) -> dict:
    """What adapter_config.json says, where its adapters can be read as LoRA's own.

    Raises:
      WeightsError: there is no such file, it is damaged, or a setting makes of the
        same tensors other numbers than are computed here.
    """
    path = folder / ADAPTERS
    settings = _read(path)
    if not isinstance(settings, dict) or settings.get("peft_type") != "LORA":
        raise WeightsError(
            f"{path} is not of LoRA adapters, the only ones that are read."
        )
    for name, fine in PLAIN.items():
        if settings.get(name) is not None and settings[name] not in fine:
            raise WeightsError(
                f"{path}: {name}={settings[name]!r} is not supported. Load the adapters"
                " with peft on their base, save what merge_and_unload() returns, and "
                "load that folder as a model (weights.load)."
            )
    began = settings.get("init_lora_weights")
    if isinstance(began, str) and began.lower().startswith(OTHER_BASES):
        raise WeightsError(
            f"{path}: init_lora_weights={began!r} changed the base, too: without that "
            "base the adapters are of no use. Convert them with peft, as it describes."
        )
    if not isinstance(settings.get("use_rslora") or False, bool):
        raise WeightsError(
            f"{path}: use_rslora={settings['use_rslora']!r} is neither true nor false."
        )
    _require_numbers(path, settings.get("r"), settings.get("lora_alpha"))
    return settings


def _read(path):
    """What is in the file."""
    if not path.parent.is_dir():
        raise WeightsError(
            f"{path.parent} is no folder on this machine. Pass the folder that holds "
            f"{ADAPTERS}; adapters of the hub are fetched first: "
            "huggingface_hub.snapshot_download(id)."
        )
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise WeightsError(
            f"{path.parent} has no {ADAPTERS}: it is no folder of adapters."
        ) from None
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise WeightsError(
            f"{path} is not JSON: {error}. Fetch the folder or make it again."
        ) from None


def _require_numbers(path, rank, alpha):
    if type(rank) is not int or not 0 < rank < MOST:
        raise WeightsError(
            f"{path}: r={str(rank)[:40]}, and a rank is a whole number above 0, below "
            f"{MOST:,}. Fetch the folder or make it again."
        )
    number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not number or not 0 < alpha < MOST:
        raise WeightsError(
            f"{path}: lora_alpha={str(alpha)[:40]}, and the adapters' factor is a "
            f"number above 0, below {MOST:,}. Fetch the folder or make it again."
        )
