"""The jar cache: only published jars are used, from a folder that only its owner can change."""

from __future__ import annotations

import os
import re
import runpy
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from target_spark.cli import doctor
from target_spark.errors import SparkUnavailableError
from target_spark.spark.jar_cache import cached, locked, remove_incomplete_jars
from target_spark.spark.jar_versions import ARTIFACTS, HADOOP_AWS, SHA256
from target_spark.spark.jars import every_library, format_conf
from tests.other_user import STRANGER, as_root
from tests.target.spark.cached_jars import create_jars, publish

DELTA = ARTIFACTS["delta", "4.1"]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a valid cache of Delta's jars."""
    folder = tmp_path / "ivy"
    publish(monkeypatch, folder, DELTA)
    assert cached(folder, DELTA) is not None
    return folder


def get_refusal(folder: Path) -> str:
    with pytest.raises(SparkUnavailableError) as caught:
        format_conf("delta", {"spark.jars.ivy": str(folder)}, [], "4.1.4")
    return str(caught.value)


def test_every_jar_has_a_hash_and_the_version_of_the_script() -> None:
    """A version changed in one place only would be rejected at its first use."""
    names = {name for library in every_library() for name in library.all_jars}
    assert names == set(SHA256)
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in SHA256.values())
    script = runpy.run_path(str(ROOT / "scripts" / "write_jar_versions.py"))
    assert script["list_artifacts"]() == ARTIFACTS
    assert script["HADOOP_AWS"] == HADOOP_AWS


def test_different_jar_with_a_published_name_is_rejected(tmp_path: Path) -> None:
    """SEC19: a different jar with the name of a published one is rejected."""
    jars = create_jars(tmp_path, DELTA)
    message = get_refusal(tmp_path)
    assert str(jars[0]) in message
    assert SHA256[DELTA[0]] in message
    assert f"Remove the folder {tmp_path}" in message
    check = doctor._make_check("jars", lambda: doctor._describe_jars(given(tmp_path)))
    assert (check.verdict, str(jars[0]) in check.text) == ("failed", True)


def given(folder: Path) -> dict[str, object]:
    return {"path": "x", "spark": {"spark.jars.ivy": str(folder)}}


def test_one_changed_byte_is_detected(cache: Path) -> None:
    """SEC19: one changed byte is detected, also with the same size and time."""
    jar = cache / "jars" / "io.delta_delta-storage-4.4.0.jar"
    before, content = jar.stat(), bytearray(jar.read_bytes())
    content[40] ^= 1
    jar.write_bytes(content)
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert zipfile.is_zipfile(jar)
    assert str(jar) in get_refusal(cache)


@pytest.mark.parametrize("which_path", ["parent", "cache", "jars", "jar"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_cache_writable_by_others_is_rejected(cache: Path, which_path: str, mode: int) -> None:
    """The jars could be replaced between the check and their use by Java."""
    if (which_path, mode) == ("parent", 0o020) and os.getegid() == os.geteuid():
        os.chown(cache.parent, -1, STRANGER) if os.geteuid() == 0 else pytest.skip("own group")
    jars = cache / "jars"
    paths = {"parent": cache.parent, "cache": cache, "jars": jars, "jar": next(jars.iterdir())}
    changed = paths[which_path]
    changed.chmod(stat.S_IMODE(changed.stat().st_mode) | mode)
    message = get_refusal(cache)
    assert f"{changed} may be written by" in message
    assert "chmod -R go-w" in message
    assert "spark.jars.ivy" in message
    if which_path == "parent":
        changed.chmod(0o1777)  # in a sticky folder no other user can rename the cache
        assert cached(cache, DELTA) is not None


@as_root
@pytest.mark.parametrize("which_path", ["parent", "cache", "jars", "jar"])
def test_cache_of_another_user_is_rejected(cache: Path, which_path: str) -> None:
    """The owner of a cache can change it at any time."""
    jars = cache / "jars"
    paths = {"parent": cache.parent, "cache": cache, "jars": jars, "jar": next(jars.iterdir())}
    os.chown(paths[which_path], STRANGER, STRANGER)
    assert f"{paths[which_path]} belongs to another user" in get_refusal(cache)


def test_symbolic_link_to_a_published_jar_is_rejected(cache: Path, tmp_path: Path) -> None:
    """The target of a link may be changed after the check."""
    jar = next((cache / "jars").iterdir())
    jar.rename(tmp_path / "elsewhere.jar")
    jar.symlink_to(tmp_path / "elsewhere.jar")
    assert f"{jar} is a symbolic link" in get_refusal(cache)


def test_new_cache_is_private_and_its_lock_follows_no_link(tmp_path: Path) -> None:
    """That holds for any umask."""
    before = os.umask(0)
    try:
        with locked(tmp_path / "above" / "ivy"):
            pass
    finally:
        os.umask(before)
    folder = tmp_path / "above" / "ivy"
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o755
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / ".lock").unlink()
    (folder / ".lock").symlink_to(tmp_path / "victim")
    with pytest.raises(SparkUnavailableError, match="symbolic link"), locked(folder):
        pass
    assert not (tmp_path / "victim").exists()


def test_truncated_jars_are_removed_before_jars_are_fetched(cache: Path) -> None:
    """Spark's resolver keeps any file with the name of a jar."""
    complete, torn = (next((cache / "jars").glob(f"*{name}*")) for name in ("4.1", "storage"))
    torn.write_bytes(torn.read_bytes()[:40])
    assert cached(cache, DELTA) is None
    remove_incomplete_jars(cache, DELTA)
    assert list((cache / "jars").iterdir()) == [complete]


@pytest.mark.spark
def test_downloaded_jar_is_checked_before_spark_starts(tmp_path: Path) -> None:
    """SEC19: jars that a repository serves are checked before Spark's JVM starts."""
    repository = tmp_path / "repository"
    repository.mkdir()
    for name in DELTA:
        artifact, version = name.split(":")[1:]
        with zipfile.ZipFile(repository / f"{artifact}-{version}.jar", "w") as jar:
            jar.writestr("META-INF/services/org.apache.spark.sql.Evil", "x")
    _, storage, version = DELTA[1].split(":")
    needed = f'<dependency org="io.delta" name="{storage}" rev="{version}"/>'
    artifact = DELTA[0].split(":")[1]
    (repository / f"{artifact}-{version}.xml").write_text(
        f'<ivy-module version="2.0"><info organisation="io.delta" module="{artifact}"'
        f' revision="{version}"/><dependencies>{needed}</dependencies></ivy-module>'
    )
    settings, pattern = tmp_path / "ivysettings.xml", f"{repository}/[artifact]-[revision].[ext]"
    settings.write_text(
        '<ivysettings><settings defaultResolver="only"/><resolvers><filesystem name="only">'
        f'<ivy pattern="{repository}/[module]-[revision].xml"/><artifact pattern="{pattern}"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    conf = {"spark.jars.ivy": str(tmp_path / "ivy"), "spark.jars.ivySettings": str(settings)}
    code = (
        "from target_spark.spark.session import Session, SparkSettings\n"
        f"session = Session(SparkSettings(master='local[1]', conf={conf!r})).start()\n"
        "try:\n    session.spark()\nexcept Exception as error:\n    print(error)\n"
        "print(session.jvm_pid)\nsession.stop()\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    fetched = tmp_path / "ivy" / "jars" / "io.delta_delta-spark_4.1_2.13-4.4.0.jar"
    assert fetched.is_file(), process.stderr
    assert f"The jar {fetched} is not used" in process.stdout
    assert process.stdout.endswith("\nNone\n")
