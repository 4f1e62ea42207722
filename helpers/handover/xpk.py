"""XPK's command for a row: it starts the workload, or shows the JobSet of it."""

from helpers.handover.orders import Order


def pathways_command(order: Order, manifest: str | None = None) -> list[str]:
    """`xpk workload create-pathways` as a list of words, for `subprocess.run`.

    Args:
      order: a row.
      manifest: file that XPK writes its JobSet to, and starts nothing; None: it starts.
    """
    settings = {
        "workload": order.name,
        "cluster": order.cluster,
        "project": order.project,
        "zone": order.zone,
        "tpu-type": order.slice,
        "num-slices": "1",
        "docker-image": order.image,
        "pathways-gcs-location": f"{order.bucket}/pathways",
        "command": " ".join(order.training(pathways=True)),
    }
    words = [f"--{name}={value}" for name, value in settings.items()]
    if manifest is not None:
        words += ["--dry-run", "--skip-validation"]
        words += [f"--output-manifest-file={manifest}"]
    return ["xpk", "workload", "create-pathways", *words]
