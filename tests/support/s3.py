"""A server that speaks S3's API, for as long as a test needs one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""For the environment of whoever uses it; nothing else is asked."""

BUCKET = "journals"


@dataclass(frozen=True)
class S3Server:
    """``client`` is boto3's."""

    port: int
    client: Any

    def uri(self, prefix: str, scheme: str = "s3") -> str:
        """A location under the one bucket, as a user would give it."""
        return f"{scheme}://{BUCKET}/{prefix}?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{self.port}"

    def keys(self, prefix: str) -> list[str]:
        """The names of all objects below ``prefix``, without it."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix + "/")
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return [key.removeprefix(prefix + "/") for key in keys if not key.endswith("/")]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """moto's server in a thread, on a free port of 127.0.0.1, with one bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        client.create_bucket(Bucket=BUCKET)
        yield S3Server(port, client)
        client.close()
    finally:
        server.stop()
