"""The Python package `kubernetes`: CustomObjectsApi, the dynamic client, and its watches."""

import pytest
from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, UnprocessibleEntityError
from objects import NAMESPACE, binding, rebalancer, task

WHERE = {"group": "work.karmada.io", "version": "v1alpha2", "namespace": NAMESPACE, "plural": "resourcebindings"}
REBALANCERS = {"group": "apps.karmada.io", "version": "v1alpha1", "plural": "workloadrebalancers"}
WATCH_SECONDS = 30


@pytest.fixture(scope="module")
def api_client(ballast):
    with config.new_client_from_config(str(ballast.kubeconfig)) as api_client:
        yield api_client


@pytest.fixture
def objects(api_client):
    objects = client.CustomObjectsApi(api_client)
    yield objects
    objects.delete_collection_namespaced_custom_object(**WHERE)


@pytest.fixture
def bindings(api_client, objects):
    """The dynamic client's view of the same kind. It is emptied afterwards, as `objects` is."""
    return dynamic.DynamicClient(api_client).resources.get(api_version="work.karmada.io/v1alpha2", kind="ResourceBinding")


# -- CustomObjectsApi


def test_objects_are_created_read_changed_and_deleted(objects):
    created = objects.create_namespaced_custom_object(body=binding("a", replicas=1), **WHERE)
    assert created["metadata"]["uid"] and created["metadata"]["generation"] == 1
    with pytest.raises(ApiException) as refused:
        objects.create_namespaced_custom_object(body=binding("a"), **WHERE)
    assert (refused.value.status, "AlreadyExists" in refused.value.body) == (409, True)
    assert objects.get_namespaced_custom_object(name="a", **WHERE) == created
    created["spec"]["replicas"] = 2
    replaced = objects.replace_namespaced_custom_object(name="a", body=created, **WHERE)
    assert (replaced["spec"]["replicas"], replaced["metadata"]["generation"]) == (2, 2)
    with pytest.raises(ApiException) as refused:
        objects.replace_namespaced_custom_object(name="a", body=created, **WHERE)
    assert refused.value.status == 409, "its version is old"
    replaced["status"] = {"schedulerObservedGeneration": 2}
    shown = objects.replace_namespaced_custom_object_status(name="a", body=replaced, **WHERE)
    assert shown["status"]["schedulerObservedGeneration"] == 2
    assert objects.get_namespaced_custom_object_status(name="a", **WHERE)["status"] == shown["status"]
    status = objects.delete_namespaced_custom_object(name="a", **WHERE)
    assert (status["kind"], status["status"], status["details"]["uid"]) == ("Status", "Success", created["metadata"]["uid"])
    with pytest.raises(ApiException) as missing:
        objects.get_namespaced_custom_object(name="a", **WHERE)
    assert missing.value.status == 404


def test_patches_of_both_kinds(objects):
    objects.create_namespaced_custom_object(body=binding("p", replicas=1), **WHERE)
    patch = objects.patch_namespaced_custom_object
    assert patch(name="p", body={"spec": {"replicas": 2}, "metadata": {"labels": {"a": "b"}}}, **WHERE)["spec"]["replicas"] == 2
    steps = [{"op": "test", "path": "/spec/replicas", "value": 2}, {"op": "replace", "path": "/spec/replicas", "value": 3}]
    # The package sends a merge patch unless it is told otherwise.
    json_patch = "application/json-patch+json"
    assert patch(name="p", body=steps, _content_type=json_patch, **WHERE)["spec"]["replicas"] == 3
    with pytest.raises(ApiException) as untrue:
        patch(name="p", body=steps, _content_type=json_patch, **WHERE)
    assert untrue.value.status == 422
    tried = patch(name="p", body={"spec": {"replicas": 9}}, dry_run="All", field_manager="tests", **WHERE)
    assert tried["spec"]["replicas"] == 9
    assert objects.get_namespaced_custom_object(name="p", **WHERE)["spec"]["replicas"] == 3
    status = objects.patch_namespaced_custom_object_status(name="p", body={"status": {"schedulerObservedGeneration": 4}}, **WHERE)
    assert status["status"]["schedulerObservedGeneration"] == 4
    with pytest.raises(ApiException) as unknown:
        patch(name="p", body={"spec": {"surprise": 1}}, field_validation="Strict", **WHERE)
    assert "strict decoding error" in unknown.value.body


def test_lists_come_in_pages_and_by_selector(objects):
    for i in range(7):
        objects.create_namespaced_custom_object(body=binding(f"n{i}", labels={"odd": str(i % 2)}), **WHERE)
    names, versions, token = [], set(), None
    while token != "":
        page = objects.list_namespaced_custom_object(limit=3, _continue=token or "", **WHERE)
        names += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        token = page["metadata"].get("continue", "")
        assert page["metadata"].get("remainingItemCount", 0) == 7 - len(names)
    assert names == [f"n{i}" for i in range(7)] and len(versions) == 1
    odd = objects.list_namespaced_custom_object(label_selector="odd=1", **WHERE)["items"]
    assert [item["metadata"]["name"] for item in odd] == ["n1", "n3", "n5"]
    one = objects.list_namespaced_custom_object(field_selector="metadata.name=n4", **WHERE)["items"]
    assert len(one) == 1
    everywhere = objects.list_custom_object_for_all_namespaces("work.karmada.io", "v1alpha2", "resourcebindings")
    assert len(everywhere["items"]) == 7
    gone = objects.delete_collection_namespaced_custom_object(label_selector="odd=0", **WHERE)
    assert len(gone["items"]) == 4


def test_cluster_scoped_objects_and_actions(objects):
    created = objects.create_cluster_custom_object(body=rebalancer("r"), **REBALANCERS)
    assert created["metadata"]["name"] == "r"
    objects.patch_cluster_custom_object(name="r", body={"metadata": {"labels": {"a": "b"}}}, **REBALANCERS)
    assert objects.get_cluster_custom_object(name="r", **REBALANCERS)["metadata"]["labels"]["a"] == "b"
    with pytest.raises(ApiException) as invalid:
        objects.create_cluster_custom_object(body={**rebalancer("s"), "spec": {"workloads": []}}, **REBALANCERS)
    assert invalid.value.status == 422
    objects.delete_cluster_custom_object(name="r", **REBALANCERS)
    done = objects.create_cluster_custom_object(
        group="task.karmada.io", version="v1alpha1", plural="rescheduletasks", body=task("t")
    )
    assert done["kind"] == "RescheduleTask" and "uid" not in done["metadata"], "it is answered, never kept"


def test_a_watch_resumes_where_a_list_ended(objects):
    objects.create_namespaced_custom_object(body=binding("old"), **WHERE)
    listed = objects.list_namespaced_custom_object(**WHERE)
    objects.create_namespaced_custom_object(body=binding("new"), **WHERE)
    objects.patch_namespaced_custom_object(name="new", body={"spec": {"replicas": 1}}, **WHERE)
    objects.delete_namespaced_custom_object(name="new", **WHERE)
    watcher, seen = watch.Watch(), []
    start = listed["metadata"]["resourceVersion"]
    for event in watcher.stream(objects.list_namespaced_custom_object, resource_version=start, timeout_seconds=WATCH_SECONDS, **WHERE):
        seen.append((event["type"], event["object"]["metadata"]["name"]))
        if event["type"] == "DELETED":
            watcher.stop()
    assert seen == [("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "new")]
    # Without a resourceVersion the watch begins with the present objects. With a timeout it ends by
    # itself.
    quiet = watch.Watch().stream(objects.list_namespaced_custom_object, timeout_seconds=5, **WHERE)
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in quiet] == [("ADDED", "old")]


# -- the dynamic client


def test_the_dynamic_client_knows_every_kind(api_client):
    known = dynamic.DynamicClient(api_client).resources
    kinds = {resource.kind for resource in known.search()}
    assert {"ResourceBinding", "WorkloadRebalancer", "RescheduleTask", "Cluster", "PropagationPolicy"} <= kinds
    assert known.get(short_names=["rb"]).kind == "ResourceBinding"


def test_the_dynamic_client_creates_changes_and_deletes(bindings):
    created = bindings.create(body=binding("d", replicas=1), namespace=NAMESPACE)
    assert created.metadata.uid
    with pytest.raises(ConflictError):
        bindings.create(body=binding("d"), namespace=NAMESPACE)
    merge = "application/merge-patch+json"
    assert bindings.patch(name="d", namespace=NAMESPACE, body={"spec": {"replicas": 2}}, content_type=merge).spec.replicas == 2
    steps = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    json_patch = "application/json-patch+json"
    assert bindings.patch(name="d", namespace=NAMESPACE, body=steps, content_type=json_patch).spec.replicas == 3
    fresh = bindings.get(name="d", namespace=NAMESPACE).to_dict()
    fresh["metadata"]["labels"] = {"a": "b"}
    assert bindings.replace(body=fresh, namespace=NAMESPACE).metadata.labels.a == "b"
    with pytest.raises(UnprocessibleEntityError):
        bindings.patch(name="d", namespace=NAMESPACE, body={"spec": {"replicas": "x"}}, content_type=merge)
    seen = bindings.status.patch(name="d", namespace=NAMESPACE, body={"status": {"schedulerObservedGeneration": 5}}, content_type=merge)
    assert seen.status.schedulerObservedGeneration == 5
    assert [item.metadata.name for item in bindings.get(namespace=NAMESPACE, label_selector="a=b").items] == ["d"]
    assert len(bindings.get(namespace=NAMESPACE, limit=1).items) == 1
    bindings.delete(name="d", namespace=NAMESPACE)
    with pytest.raises(NotFoundError):
        bindings.get(name="d", namespace=NAMESPACE)
    bindings.create(body=binding("e"), namespace=NAMESPACE)
    bindings.delete(namespace=NAMESPACE, label_selector="none=here")
    assert len(bindings.get(namespace=NAMESPACE).items) == 1


def test_the_dynamic_client_applies(bindings):
    def applied(manager, **more):
        return bindings.server_side_apply(body=binding("s", **more), namespace=NAMESPACE, field_manager=manager)

    assert applied("one", replicas=1).spec.replicas == 1
    with pytest.raises(ConflictError):
        applied("two", replicas=2)
    two = binding("s", replicas=2)
    forced = bindings.server_side_apply(body=two, namespace=NAMESPACE, field_manager="two", force_conflicts=True)
    assert forced.spec.replicas == 2
    owners = {owner.manager for owner in forced.metadata.managedFields}
    assert {"one", "two"} <= owners


def test_the_dynamic_client_watches(bindings):
    bindings.create(body=binding("w"), namespace=NAMESPACE)
    seen = []
    for event in bindings.watch(namespace=NAMESPACE, timeout=WATCH_SECONDS):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            break
        # Only once the watch has begun, or it would miss the change.
        bindings.delete(name="w", namespace=NAMESPACE)
    assert seen == [("ADDED", "w"), ("DELETED", "w")]
