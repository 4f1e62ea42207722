"""Which template a folder without one gets, and what is said when it gets none."""

import json

import family_tokenizers
import pytest
from family_tokenizers import written

from helpers.text import chat

FIRST = {
    "gemma3_text": "<bos>",
    "gemma4": "<bos>",
    "qwen2": "<|im_start|>",
    "qwen3": "<|im_start|>",
    "llama": "<|begin_of_text|>",
}


@pytest.mark.parametrize(
    "family, config",
    [
        ("gemma3_text", {"model_type": "gemma3", "text_config": {}}),
        ("gemma3_text", {"architectures": ["Gemma3ForConditionalGeneration"]}),
        ("gemma3_text", {"architectures": ["Gemma3ForCausalLM"]}),
        ("gemma4", {"model_type": "gemma4", "text_config": {}}),
        ("gemma4", {"model_type": "gemma4_text"}),
        ("gemma4", {"architectures": ["Gemma4ForConditionalGeneration"]}),
        ("qwen2", {"architectures": ["Qwen2ForCausalLM"]}),
        ("qwen3", {"architectures": ["Qwen3ForCausalLM"]}),
        ("llama", {"architectures": ["LlamaForCausalLM"]}),
        ("llama", {"model_type": "llama", "architectures": ["Other"]}),
    ],
)
def test_config_json_names_the_family(tmp_path, family, config):
    folder = family_tokenizers.save(tmp_path, family, **config)
    tokenizer = chat.load_tokenizer(folder)
    prompt = written(tokenizer, chat.prompt_tokens(tokenizer, "Hi"))
    assert prompt[0] == FIRST[family] and "Hi" in prompt


def test_a_folders_own_template_wins(tmp_path):
    family_tokenizers.save(tmp_path, "qwen2")
    own = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
    (tmp_path / "chat_template.jinja").write_text(own)
    assert chat.load_tokenizer(tmp_path).chat_template == own


def test_the_familys_template_is_saved_with_the_tokenizer(tmp_path):
    tokenizer = chat.load_tokenizer(family_tokenizers.save(tmp_path, "qwen3"))
    chat.save_tokenizer(tokenizer, tmp_path / "again")
    again = chat.load_tokenizer(tmp_path / "again")  # there is no config.json there
    for thinking in (None, False):
        assert chat.prompt_tokens(again, "Hi", thinking) == chat.prompt_tokens(
            tokenizer, "Hi", thinking
        )


def test_a_model_that_is_not_to_think_is_asked_so_everywhere_and_after_saving(tmp_path):
    thinks = chat.load_tokenizer(family_tokenizers.save(tmp_path, "qwen3"))
    settled = chat.without_thinking(thinks)
    asked = chat.prompt_tokens(thinks, "Hi", thinking=False)
    assert chat.prompt_tokens(settled, "Hi") == asked
    assert chat.prompt_tokens(thinks, "Hi") != asked  # the other is as it was
    assert chat.example_tokens(settled, "Hi", "Ho") == chat.example_tokens(
        thinks, "Hi", "Ho", thinking=False
    )
    chat.save_tokenizer(settled, tmp_path / "again")
    again = chat.load_tokenizer(tmp_path / "again")
    assert chat.prompt_tokens(again, "Hi") == asked
    with pytest.raises(ValueError, match="same prompt with thinking on and off"):
        chat.prompt_tokens(settled, "Hi", thinking=True)


def test_a_template_without_the_switch_stays_as_it_is(tmp_path):
    tokenizer = chat.load_tokenizer(family_tokenizers.save(tmp_path, "qwen2"))
    assert chat.without_thinking(tokenizer) is tokenizer


def test_gemmas_first_token_is_there_when_its_settings_do_not_name_it(tmp_path):
    family_tokenizers.save(tmp_path, "gemma3_text")
    path = tmp_path / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    settings.pop("bos_token")
    path.write_text(json.dumps(settings))
    (tmp_path / "special_tokens_map.json").unlink(missing_ok=True)
    tokenizer = chat.load_tokenizer(tmp_path)
    prompt = chat.prompt_tokens(tokenizer, "Hi")
    assert written(tokenizer, prompt)[:2] == ["<bos>", "<start_of_turn>"]


@pytest.mark.parametrize(
    "family, model_type, missing",
    [
        ("llama", "qwen3", r"<\|im_start\|>, <\|im_end\|>, <\|endoftext\|>"),
        ("qwen2", "llama", r"<\|begin_of_text\|>.*<\|eot_id\|>"),
        ("qwen2", "gemma3", "<bos>, <eos>, <start_of_turn>, <end_of_turn>"),
    ],
)
def test_a_tokenizer_of_another_family_is_refused(
    tmp_path, family, model_type, missing
):
    folder = family_tokenizers.save(tmp_path, family, model_type=model_type)
    with pytest.raises(ValueError, match=f"{model_type}'s turns need {missing}"):
        chat.load_tokenizer(folder)


@pytest.mark.parametrize(
    "config",
    [{"model_type": "gpt2"}, {"model_type": ["qwen2"]}, {"model_type": None}, {"a": 1}],
)
def test_an_unknown_family_without_a_template_is_refused(tmp_path, config):
    folder = family_tokenizers.save(tmp_path, "qwen2", **config)
    with pytest.raises(ValueError, match="no chat template.*gemma3.*llama"):
        chat.load_tokenizer(folder)


@pytest.mark.parametrize(
    "damage", [b"", b"[]", b"\xff", b'{"model_type": "qw', b'{"architectures": [1]}']
)
def test_a_damaged_config_is_named(tmp_path, damage):
    folder = family_tokenizers.save(tmp_path, "qwen2")
    (folder / "config.json").write_bytes(damage)
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        chat.load_tokenizer(folder)


def test_llama_reads_the_text_of_a_content_in_parts(tmp_path):
    tokenizer = chat.load_tokenizer(family_tokenizers.save(tmp_path, "llama"))
    parts = [{"type": "text", "text": "What is "}, {"type": "text", "text": "2+3?"}]
    asked = chat.prompt_tokens(tokenizer, [{"role": "user", "content": parts}])
    assert list(asked) == list(chat.prompt_tokens(tokenizer, "What is 2+3?"))
