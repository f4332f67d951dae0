"""A folder that one holder has to itself; a lock counts between two openings of a folder, in one process or in two."""

from pathlib import Path

from elmo.folder_lock import held


def test_one_holder_at_a_time_or_several_that_share(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with held(folder) as is_ours, held(folder, wait=False) as is_theirs:
        assert is_ours and not is_theirs
    with held(folder, shared=True) as first, held(folder, shared=True, wait=False) as second:
        assert first and second
        with held(folder, wait=False) as third:
            assert not third
    with held(folder, wait=False) as is_free_again:
        assert is_free_again
