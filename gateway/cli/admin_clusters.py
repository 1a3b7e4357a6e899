"""`magnetar-admin clusters`: the one there is, and what there would be of others."""

from __future__ import annotations

import click

from gateway.cli.admin_client import segment
from gateway.cli.admin_options import HELP, Noun, Options, common, pass_options

_cluster = click.argument("cluster", default="standalone")


@click.group(cls=Noun, context_settings=HELP)
def clusters() -> None:
    """The cluster."""


@clusters.command("list")
@click.option("-c", "--current", is_flag=True, help="Mark the cluster that answers with (*).")
@common
@pass_options
def list_clusters(options: Options, current: bool) -> None:
    """Names of the clusters."""
    client = options.client()
    names = client.get("clusters")
    if current:
        own = client.get("brokers/configuration/runtime").get("clusterName")
        names = [f"{name}(*)" if name == own else name for name in names]
    options.show(names, "cluster")


@clusters.command("get")
@click.argument("cluster", default="standalone")
@common
@pass_options
def get_cluster(options: Options, cluster: str) -> None:
    """Where CLUSTER is reached."""
    options.show(options.client().get(f"clusters/{segment(cluster)}"))


@clusters.command(epilog="\b\nExample:\n  magnetar-admin clusters get-peer-clusters standalone")
@_cluster
@common
@pass_options
def get_peer_clusters(options: Options, cluster: str) -> None:
    """Clusters that take over from CLUSTER: none."""
    options.show(options.client().get(f"clusters/{segment(cluster)}/peers"), "cluster")


@clusters.command(epilog="\b\nExample:\n  magnetar-admin clusters list-failure-domains standalone")
@_cluster
@common
@pass_options
def list_failure_domains(options: Options, cluster: str) -> None:
    """Groups of brokers of CLUSTER that fail together: none is named."""
    options.show_map(options.client().get(f"clusters/{segment(cluster)}/failureDomains"))


@clusters.command(
    epilog="\b\nExample:\n  magnetar-admin clusters get-failure-domain standalone --domain-name hall-1"
)
@_cluster
@click.option("--domain-name", required=True, help="Its name.")
@common
@pass_options
def get_failure_domain(options: Options, cluster: str, domain_name: str) -> None:
    """One failure domain of CLUSTER: there is none."""
    options.show(options.client().get(f"clusters/{segment(cluster)}/failureDomains/{segment(domain_name)}"))


@clusters.command(epilog="\b\nExample:\n  magnetar-admin clusters get-cluster-migration standalone")
@_cluster
@common
@pass_options
def get_cluster_migration(options: Options, cluster: str) -> None:
    """Whether clients of CLUSTER are sent to another one: they are not."""
    options.show(options.client().get(f"clusters/{segment(cluster)}/migrate"))
