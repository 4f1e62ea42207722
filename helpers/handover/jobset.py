"""A JobSet for a row without Pathways: every host of the slice runs the same program.

Written as JSON, which is YAML in which no text can be anything but a text. For Pathways
`xpk.pathways_command` has XPK write it.
"""

import json

from helpers.handover.orders import Order

TOKEN = "hf-token"  # the Secret of the cluster, and its key "token"
RESTARTS = 4  # a host that is preempted restarts the job, which resumes


def jobset(order: Order) -> dict:
    """The manifest, for `kubectl apply -f`; see `as_text`."""
    kind = order.kind
    container = {
        "name": "train",
        "image": order.image,
        "command": order.training(pathways=False),
        "env": [
            {
                "name": "HF_TOKEN",
                "valueFrom": {
                    "secretKeyRef": {"name": TOKEN, "key": "token", "optional": True}
                },
            }
        ],
        "resources": {"limits": {"google.com/tpu": str(kind.chips_per_host)}},
    }
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": kind.accelerator,
            "cloud.google.com/gke-tpu-topology": kind.topology,
        },
        "tolerations": [{"key": "google.com/tpu", "operator": "Exists"}],
        "containers": [container],
    }
    job = {
        "parallelism": kind.hosts,
        "completions": kind.hosts,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"spec": pod},
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": order.name},
        "spec": {
            "failurePolicy": {"maxRestarts": RESTARTS},
            "replicatedJobs": [
                {"name": "slice", "replicas": 1, "template": {"spec": job}}
            ],
        },
    }


def as_text(manifest: dict) -> str:
    """A manifest as text."""
    return json.dumps(manifest, indent=2) + "\n"
