"""The page of topics links to every exercise of the course by its name and number."""

from __future__ import annotations

import re

import pytest

from gpututor.course.model import Exercise
from tests.support import ROOT
from tests.support.shipped_course import COURSE

PAGE = ROOT / "docs" / "topics.md"
LINK = re.compile(r"^\[(\d+\.\d+ \w+)\]: (\S+)$", re.MULTILINE)
MENTION = re.compile(r"\[(\d+\.\d+ \w+)\](?!:)")


def name(exercise: Exercise) -> str:
    return f"{exercise.label} {exercise.slug}"


def test_the_page_links_every_exercise_by_number_and_name_and_nothing_else() -> None:
    links = {label: (PAGE.parent / target).resolve() for label, target in LINK.findall(PAGE.read_text("utf-8"))}
    wanted = {name(exercise): exercise.folder.resolve() for exercise in COURSE.exercises}
    missing = [
        f"[{label}]: ../exercises/{'/'.join(at.parts[-2:])}" for label, at in wanted.items() if label not in links
    ]
    assert links == wanted, "these lines are missing:\n" + "\n".join(missing)
    mentioned = set(MENTION.findall(PAGE.read_text("utf-8")))
    assert mentioned == {name(exercise) for exercise in COURSE.exercises}


SYSTEMS = {
    "GPUs: availability, number, names": "1.1 always_available",
    "selection of a device": "1.2 wrong_order, 1.3 minus_one",
    "`try_gpu`, `try_all_gpus`": "1.3 one_too_many",
    "installation: builds of PyTorch, and drivers that match": "1.5 always_the_driver",
    "`nvidia-smi`": "1.4 memory_utilization",
    "tensors made on a device: `device=`": "2.1 made_and_moved",
    "moving tensors: `.to`, `.cuda`, `.cpu`": "2.2 scores_stay, 2.3 still_mixed, 5.1 left_on_the_cpu",
    "mismatched devices": "2.3 still_mixed, 2.4 gpu_number",
    "bytes and dtypes on the bus": "2.6 convert_first, 3.6 floats_on_the_bus, 5.6 floats_cross, "
    "5.10 floats_on_the_bus, 8.6 floats_on_the_bus",
    "parameters and buffers": "3.1 parameters_only, 3.2 plain_attributes, 8.4 plain_attribute",
    "forward pass": "3.3 batch_stays, 5.4 copies_in_batches_only",
    "training step": "3.4 optimizer_of_the_old_model, 7.2 the_optimizer_steps, 8.6 gradients_add_up",
    "state dicts across devices": "3.5 no_map_location, 10.2 names_of_the_wrapper, 10.4 names_of_the_wrapper",
    "timing with `synchronize`": "4.1 never_waits, 4.3 not_waited_for, 10.5 only_launches",
    "timing with CUDA events": "4.2 recorded_too_late",
    "timing with `torch.utils.benchmark`": "4.6 own_stopwatch",
    "few large copies instead of copies of rows": "4.5 cpu_in_the_loop, 5.1 row_by_row, 5.2 still_clips_in_numpy",
    "hidden waits: `.item()`": "4.5 item_in_the_loop, 5.3 item_in_the_loop, 5.9 waits_itself, 8.5 one_if_is_left",
    "batches": "5.4 sample_by_sample, 6.4 one_by_one, 6.6 whole_batch",
    "pinned memory, `non_blocking`": "3.6 waits_for_copies, 5.5 not_pinned, 5.6 blocking_copies, "
    "5.7 blocking_copy, 5.10 pageable",
    "a prefetcher": "5.7 all_at_the_start",
    "streams": "5.7 one_stream, 5.8 one_stream",
    "races, `record_stream`": "5.7 no_record, 5.8 no_record",
    "a `DataLoader` that feeds a CNN": "3.6 waits_for_copies, 5.10 no_workers",
    "meters, `empty_cache`": "6.3 cached_after_emptying, 6.9 empties_the_cache",
    "out of memory, the largest batch": "6.4 powers_of_two",
    "`view` or `reshape`": "6.1 view_of_the_transposed",
    "work in place": "6.2 in_place_everywhere",
    "gradient checkpointing": "6.5 never_checkpointed",
    "automatic mixed precision (AMP)": "3.6 float32, 7.1 everything_in_half, 7.2 no_autocast, 7.4 autocast_never_on",
    "`GradScaler`": "3.6 never_scaled, 7.2 no_scaler",
    "gradient clipping": "7.2 clips_scaled_gradients",
    "tensor cores: types": "7.3 plain_float32",
    "tensor cores: sizes": "7.6 no_padding",
    "convolutional networks (CNN)": "3.1 no_padding, 6.7 images_only, 8.1 flattened_everything, 8.6 model_on_the_cpu",
    "recurrent networks (RNN)": "8.2 forgot_batch_first",
    "LSTM": "8.3 forgets_the_state",
    "Transformer": "8.4 no_mask, 8.9 future_seen",
    "encoder-decoder": "8.9 source_padding_read",
    "`torch.jit.trace`: its gain in speed": "9.2 traced_and_not_timed",
    "`torch.export`, `torch.jit.trace`": "9.1 never_loaded",
    "profiler: tables": "9.3 host_time",
    "profiler: schedules, labeled ranges, a Chrome trace": "9.4 records_everything",
    "two products on two GPUs": "10.1 all_on_one",
    "`DataParallel`": "10.2 wrapped_and_not_called",
    "model parallelism": "10.3 all_on_one",
    "`DistributedDataParallel` (DDP)": "10.4 each_for_itself",
    "strong and weak scaling, their efficiency": "10.5 upside_down",
    "an image pipeline (like CIFAR's): augmentation, AMP": "3.6 never_augmented, 3.6 never_scaled",
    "which limit holds": "12.2 never_the_launch",
    "fused optimizers": "12.3 foreach_by_default",
    "batched products, ensembles": "12.4 one_after_the_other",
    "hardware choice": "12.5 fastest_if_late",
}
"""Beginning or part of a topic; the exercises of its row, each with a wrong solution that misses the topic.

`verify` shows that the exercise's checks refuse the wrong solution.
"""


@pytest.mark.parametrize("topic", SYSTEMS)
def test_a_topic_names_the_exercises_that_grade_it(topic: str) -> None:
    graded = dict(entry.split() for entry in SYSTEMS[topic].split(", "))
    rows = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    (row,) = (exercises for title, exercises in rows if re.search(rf"(^|\W){re.escape(topic)}", title))
    assert [mention.split()[0] for mention in MENTION.findall(row)] == list(graded)
    for label, wrong in graded.items():
        assert (COURSE.find(label).folder / "wrong" / f"{wrong}.py").is_file()
