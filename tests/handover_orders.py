"""Rows for the tests of what is handed over."""

from helpers.handover.manifests import Order

LLAMA = dict(
    name="llama-grpo",
    model="llama3.1-70b",
    tokenizer="meta-llama/Llama-3.1-70B-Instruct",
    slice="v5p-128",
    image="us-docker.pkg.dev/my-project/course/maxtext:0.2.5",
    bucket="gs://my-bucket/llama",
    algorithm="grpo",
    cluster="my-cluster",
    project="my-project",
    zone="us-east5-a",
)
QWEN = LLAMA | dict(
    name="qwen-gspo",
    model="qwen3-0.6b",
    tokenizer="Qwen/Qwen3-0.6B",
    slice="v5litepod-8",
    algorithm="gspo-token",
)


def order(**changes) -> Order:
    """The row of the 70B recipe, or a changed one."""
    return Order(**LLAMA | changes)
