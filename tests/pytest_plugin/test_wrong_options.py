"""The pytest plugin asked for machines that cannot be: by options, by ini values and by markers."""

from __future__ import annotations

import pytest

from tests.support.pytest_sessions import run

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--virtual-gpus=9"], "--virtual-gpus: a machine has 0 to 8 virtual GPUs, not 9"),
        (["--virtual-gpus=two"], "--virtual-gpus: a machine has 0 to 8 virtual GPUs, not two"),
        (["--virtual-gpus=-1"], "--virtual-gpus: a machine has 0 to 8 virtual GPUs, not -1"),
        (
            ["--virtual-gpus=1", "--virtual-gpu-model=H10"],
            "--virtual-gpu-model: No GPU is called 'H10'. The nearest name is 'H100'. Known: *",
        ),
        (
            ["--virtual-gpus=1", "--virtual-gpu-memory=lots"],
            "--virtual-gpu-memory: 'lots' is no size of memory: say 512MiB or 16GiB",
        ),
        (
            ["--virtual-gpus=1", "--virtual-gpu-memory=2000"],
            "--virtual-gpu-memory: '2000' has no unit: say 512MiB or 16GiB",
        ),
        (["-o", "virtual_gpus=many"], "virtual_gpus: a machine has 0 to 8 virtual GPUs, not many"),
        (["-o", "virtual_gpu_model=H100"], "virtual_gpu_model needs virtual_gpus beside it."),
        (["--virtual-gpu-model=H100"], "--virtual-gpu-model needs --virtual-gpus N beside it."),
    ],
)
def test_what_cannot_be_is_a_usage_error_that_names_the_option(
    pytester: pytest.Pytester, arguments: list[str], words: str
) -> None:
    result = run(pytester, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {words}"])


def test_a_bad_ini_value_names_the_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nvirtual_gpus = many\n")
    result = run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: virtual_gpus in *tox.ini: a machine has 0 to 8 virtual GPUs, not many"])


def test_a_model_in_the_ini_file_without_a_number_is_refused_as_the_option_is(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nvirtual_gpu_model = H100\n")
    result = run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: virtual_gpu_model in *tox.ini needs virtual_gpus beside it."])


def test_a_marker_that_cannot_be_fails_its_test_in_words(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.virtual_gpu(model="A10")
        def test_model(): ...

        @pytest.mark.virtual_gpu(gpus=2)
        def test_argument(): ...

        @pytest.mark.virtual_gpu(1, "T4", "1GiB", 3)
        def test_values(): ...

        @pytest.mark.virtual_gpu(memory="1024")
        def test_unit(): ...

        def test_after_them(): ...
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1, errors=4)
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.virtual_gpu: model: No GPU is called 'A10'. The nearest name is 'A10G'.*",
            "@pytest.mark.virtual_gpu: it has no key 'gpus'; its keys are count, model, memory",
            "@pytest.mark.virtual_gpu: it has too many values; its keys are count, model, memory",
            "@pytest.mark.virtual_gpu: memory: '1024' has no unit: say 512MiB or 16GiB",
        ]
    )
