"""A tap declared in a YAML manifest, called as a Fivetran connector by gRPC."""

from __future__ import annotations

from tests.fivetran.calls import group_by_table, list_states
from tests.fivetran.connecting import ROOT, Client, serving
from tests.samples.test_manifests import script

RATES = str(ROOT / "samples" / "manifests" / "rates" / "manifest.yaml")


def test_manifest_tap_has_its_own_form_and_resumes_from_its_state():
    samples = script("serve")
    with (
        samples.serving(samples.API()) as url,
        serving("-m", "tap_core.manifest.cli", "--manifest", RATES) as server,
    ):
        client = Client(
            server, api_url=url, base="EUR", start_date="2024-02-27", end_date="2024-03-02"
        )
        form = client.call("ConfigurationForm")
        fields = {field.name: (field.label, field.required) for field in form.fields}
        assert fields["start_date"] == ("Start date", True)
        assert fields["end_date"] == ("End date", False)
        assert client.call("Test", name="connection").success
        (table,) = client.call("Schema").without_schema.tables
        assert {column.name: column.primary_key for column in table.columns}["date"]
        first = list(client.update())
        days = [row["date"] for _, row in group_by_table(first)["rates"]]
        assert len(days) == 5
        resumed = group_by_table(client.update(list_states(first)[-1]))
        assert [row["date"] for _, row in resumed["rates"]] == days[-1:]
        assert url not in "".join(server.lines)
