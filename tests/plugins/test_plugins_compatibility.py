"""The versions a plugin asks for, against the ones this host speaks for."""

from __future__ import annotations

import pytest

from fairlead.failures import Failure, Kind
from fairlead.plugins.compatibility import HOST_VERSION, check_compatible, lenient, semver
from fairlead.plugins.manifest import Manifest


def asking(osaurus: str | None = None, macos: str | None = None) -> Manifest:
    return Manifest("test.toy", min_osaurus=osaurus, min_macos=macos)


@pytest.mark.parametrize(
    ("wanted", "host"),
    [
        ("1.0.0", "1.0.0"),
        ("1.0.0", "1.0.1"),
        ("1.0.9", "1.0.10"),
        ("1.9.0", "1.10.0"),
        ("1.0.0", "2"),
        ("1.0.0", "1.0"),
        ("1.0.0", "1"),
        ("1.0.0", "1.0.0-beta.3"),
        ("1.0.0-beta", "1.0.0"),
        ("1.2.0", "v1.2"),
        (" 1.0.0 ", "1.0.0"),
    ],
)
def test_a_host_that_is_new_enough_takes_the_plugin(wanted: str, host: str) -> None:
    check_compatible(asking(wanted), host=host)


@pytest.mark.parametrize(
    ("wanted", "host"),
    [("1.0.1", "1.0.0"), ("1.10.0", "1.9.9"), ("2.0.0", "1.99.99"), ("1.0.1", "1.0"), ("1.1.0", "1")],
)
def test_a_host_that_is_too_old_refuses_it_and_names_both_versions(wanted: str, host: str) -> None:
    with pytest.raises(Failure) as caught:
        check_compatible(asking(wanted), host=host)
    assert caught.value.kind is Kind.unsupported
    assert wanted in caught.value.message
    assert host in caught.value.message


@pytest.mark.parametrize("wanted", ["1", "1.0", "one", "1.0.0.0", "v1.0.0", "1.0.0-", "01.0.0", "9" * 200])
def test_a_version_that_is_not_strict_is_let_pass_with_a_line_in_the_log(
    wanted: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_compatible(asking(wanted), host="0.0.1")
    assert "not checked" in caplog.text


@pytest.mark.parametrize("host", [None, "unknown", ""])
def test_an_unknown_host_version_lets_the_plugin_pass_with_a_warning(
    host: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    check_compatible(asking("99.0.0"), host=host)
    assert caplog.records[0].levelname == "WARNING"


@pytest.mark.parametrize("wanted", [None, "", "  "])
def test_no_version_is_no_demand(wanted: str | None, caplog: pytest.LogCaptureFixture) -> None:
    check_compatible(asking(wanted, wanted), host="0.0.1", macos="1.0")
    assert not caplog.records


def test_a_system_that_is_too_old_refuses_it() -> None:
    check_compatible(asking(macos="15"), macos="15.1")
    with pytest.raises(Failure, match="macOS 15"):
        check_compatible(asking(macos="15.0"), macos="14.7.1")


def test_a_system_that_is_no_mac_is_not_asked(caplog: pytest.LogCaptureFixture) -> None:
    check_compatible(asking(macos="99.0"))
    assert "no version of macOS" in caplog.text


def test_the_host_is_reported_first_when_both_are_too_old() -> None:
    with pytest.raises(Failure, match="osaurus"):
        check_compatible(asking("9.9.9", "99.0"), host="1.0.0", macos="14.0")


def test_we_speak_for_the_first_product_of_the_interface_s_version() -> None:
    assert HOST_VERSION == "6.0.0"
    check_compatible(asking("6.0.0"))
    with pytest.raises(Failure):
        check_compatible(asking("6.0.1"))


def test_versions_sort_by_precedence() -> None:
    names = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0",
        "1.0.9",
        "1.0.10",
        "1.10.0",
        "2.0.0",
    ]
    assert sorted(names, key=lambda name: semver(name) or ()) == names


def test_a_lenient_version_is_padded_and_its_stage_left_out() -> None:
    assert lenient("1") == lenient("1.0") == lenient("1.0.0-rc.1") == semver("1.0.0")
    assert lenient("x") is None
