"""What transformers makes of a Gemma 4 that sees, from pixels (no package of ours).

Imported where torch is, by make_gemma4_vision.py and exports.py.
"""

import numpy as np


def patches(pictures, patch, pool, budget):
    """(pixel_values, image_position_ids) as the image processor lays pictures out.

    Args:
      pictures: list of uint8 (H, W, 3), already of whole squares.
    """
    values = np.zeros((len(pictures), budget * pool**2, 3 * patch**2), np.float32)
    places = np.full((*values.shape[:2], 2), -1)
    for i, picture in enumerate(pictures):
        rows, columns = (size // patch for size in picture.shape[:2])
        for row in range(rows):
            for column in range(columns):
                n = row * columns + column
                top, left = row * patch, column * patch
                cut = picture[top : top + patch, left : left + patch]
                values[i, n], places[i, n] = cut.reshape(-1) / 255, (column, row)
    return values, places


def load(folder, dtype="float32"):
    """The whole model in this dtype of torch, as transformers reads it.

    Its softmax is float32 in any case, where the mask of float64 is minus infinity, and
    padding finds no number. So of float64 it stays float64.
    """
    import torch
    from transformers import Gemma4ForConditionalGeneration

    softmax = torch.nn.functional.softmax

    def as_given(x, dim=None, dtype=None):
        return softmax(x, dim=dim, dtype=None if x.dtype == torch.float64 else dtype)

    torch.nn.functional.softmax = as_given
    model, info = Gemma4ForConditionalGeneration.from_pretrained(
        folder,
        dtype=getattr(torch, dtype),
        attn_implementation="eager",
        output_loading_info=True,
    )
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    return model.eval()


def inputs(model, tokens, mask, pictures, budget):
    """What the model takes: ids, mask, which of them are images, and pictures."""
    import torch

    config = model.config
    tower = config.vision_config
    is_image = (tokens == config.image_token_id) & (mask > 0)
    found = {
        "input_ids": torch.tensor(tokens),
        "attention_mask": torch.tensor(mask),
        "mm_token_type_ids": torch.tensor(is_image.astype(int)),
    }
    if pictures:
        sizes = tower.patch_size, tower.pooling_kernel_size, budget
        values, places = patches(pictures, *sizes)
        found["pixel_values"] = torch.tensor(values, dtype=model.dtype)
        found["image_position_ids"] = torch.tensor(places)
    return found


def logits(model, *batch):
    """(P, T, V) of a batch, in the model's dtype."""
    import torch

    with torch.no_grad():
        # Without this, transformers 5.23 cuts off inputs that some shapes lack.
        uncut = {"output_hidden_states": True}
        return model(**inputs(model, *batch), **uncut).logits.numpy()
