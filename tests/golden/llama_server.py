"""llama.cpp serving one GGUF file, until its standard input is closed.

    python tests/golden/llama_server.py FILE      where xllamacpp is

Keys and values are kept in float32 and attention is not fused, which is nearest to this
course's decoder; one thread, so that sums have one order.
"""

import sys

import xllamacpp


def settings(file):
    """What the server is started with."""
    chosen = xllamacpp.CommonParams()
    chosen.model.path = file
    chosen.n_ctx, chosen.n_parallel = 1024, 1
    chosen.cpuparams.n_threads = chosen.cpuparams_batch.n_threads = 1
    chosen.cache_type_k = chosen.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    fused = xllamacpp.llama_flash_attn_type
    chosen.flash_attn_type = fused.LLAMA_FLASH_ATTN_TYPE_DISABLED
    chosen.cache_prompt = chosen.warmup = chosen.fit_params = False
    return chosen


if __name__ == "__main__":
    server = xllamacpp.Server(settings(sys.argv[1]))
    print("address", server.listening_address, flush=True)
    sys.stdin.read()
