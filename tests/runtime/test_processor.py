import jax
import pytest

from helpers.runtime import devices

AMD = "processor\t: 0\nmodel name\t: EPYC\nflags\t\t: fpu avx512f avx512_bf16 vaes\n"
INTEL = "processor\t: 0\nflags\t\t: fpu amx_tile amx_bf16\n"
OLD = "flags\t\t: fpu avx2 avx512f\nbugs\t\t: amx_bf16\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\n"


@pytest.mark.parametrize(
    "said, has", [(AMD, True), (INTEL, True), (OLD, False), (ARM, False), ("", False)]
)
def test_the_processors_flags_say_it(said, has, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "CPUINFO", tmp_path / "cpuinfo")
    assert not devices.multiplies_bfloat16()
    devices.CPUINFO.write_text(said)
    has = has and jax.__version_info__ >= (0, 8)
    assert devices.multiplies_bfloat16() is has
