"""Small Gemma 4 decoders, with any switches on as hypothesis draws them."""

from hypothesis import strategies as st

from helpers.model.config import KINDS, Gemma4Config, ModelConfig
from helpers.model.ops import Stretch

FIELDS = {*Gemma4Config.__dataclass_fields__}
LETTERS = {kind[0]: kind for kind in KINDS.values()}


def config(kinds="llfllf", *, turned=None, **changes):
    """A decoder in which no two sizes agree by chance, and no switch is on.

    Args:
      kinds: a letter for each layer.
      turned: (share, factor) of proportional rope; None: full layers turn whole heads.
    """
    of_gemma4 = {name: changes.pop(name) for name in FIELDS & {*changes}}
    sizes = {"heads": 4, "kv_heads": 2, "head_dim": 6} | changes
    full = {"full_head_dim": sizes["head_dim"], "full_kv_heads": sizes["kv_heads"]}
    gemma4 = Gemma4Config(tuple(LETTERS[kind] for kind in kinds), **full | of_gemma4)
    share, factor = turned or (None, None)
    return ModelConfig(
        "gemma4_text",
        **{"vocab_size": 19, "width": 16, "layers": len(kinds), "ff": 20} | sizes,
        window=4,
        rope_theta=500.0,
        rope_local_theta=20.0,
        stretch=Stretch("proportional", factor, share=share) if turned else None,
        query_scale=1.0,
        norm_eps=1e-5,
        gemma4=gemma4,
    )


# A part of what E2B has, with groups that repeat, in fewer layers.
SMALL = {"kinds": "lflflf", "sharing": 2, "double_wide": True, "per_layer": 8}
SMALL |= {"full_head_dim": 10, "turned": (0.25, 1.0), "softcap": 2.0}
# As 31B: a key of its full layers is a value, too, and all their queries share one.
LIKE_31B = {"kinds": "lflflf", "keys_are_values": True, "full_kv_heads": 1}
LIKE_31B |= {"full_head_dim": 10, "turned": (0.25, 1.0), "softcap": 2.0}
NAMED = {"gemma4_text": SMALL, "gemma4_text like 31B": LIKE_31B}
E2B = {"kinds": "llfllfllf", "sharing": 6, "double_wide": True, "per_layer": 8}
E2B |= {"full_head_dim": 10, "turned": (0.25, 1.0), "softcap": 2.0}


@st.composite
def together(draw, longest=(5, 4)):
    """Arguments of `config` with any switches on.

    Args:
      longest: how many layers have keys of their own, and how many share, at most.
    """
    first = draw(st.text("lf", min_size=1, max_size=longest[0]))
    rest = draw(st.text("".join(set(first)), max_size=longest[1]))
    kinds, sharing = first + rest, len(rest)
    if not kinds.endswith("f"):
        kinds, sharing = f"{first}f{rest}f", len(rest) + 1
    values = draw(st.booleans())
    turned = st.tuples(st.sampled_from([0.25, 0.5, 1.0]), st.sampled_from([1.0, 8.0]))
    return {
        "kinds": kinds,
        "sharing": sharing,
        "full_head_dim": draw(st.sampled_from([6, 8, 12])),
        "keys_are_values": values,
        "full_kv_heads": draw(st.sampled_from([1, 2, 4])) if values else 2,
        "double_wide": draw(st.booleans()),
        "per_layer": draw(st.sampled_from([0, 8, 9])),
        "softcap": draw(st.sampled_from([0.0, 2.0, 30.0])),
        "turned": draw(st.none() | turned),
        "tied": draw(st.booleans()),
    }
