"""airbyte-cdk's command `source-declarative-manifest`."""

from airbyte_cdk.cli.source_declarative_manifest import run

if __name__ == "__main__":
    run()
