// Fleets of any size with names as people give them, on a server of their own: for tests that look
// at the page, and for measuring it. Workloads are placed by hand, so that a fleet of a thousand
// clusters stands within seconds.
import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { join } from "node:path";

import { folder, start } from "./program.js";

const CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters";
const WORK = "/apis/work.karmada.io/v1alpha2/namespaces";
/** Requests at a time. */
const AT_A_TIME = 32;

const REGIONS = [
  ["aws", "eu-west-1"],
  ["aws", "eu-central-1"],
  ["aws", "us-east-1"],
  ["gcp", "us-west-2"],
  ["azure", "ap-northeast-1"],
  ["aws", "ap-southeast-1"],
  ["gcp", "sa-east-1"],
  ["onprem", "af-south-1"],
  ["azure", "me-central-1"],
];
const ROLES = ["payments-blue", "payments-green", "checkout-core", "search-edge", "inference-gpu"];
const NAMESPACES = ["ads", "data", "infra", "payments-production", "search", "web"];
const APPS = ["api", "audit", "auth-session-gateway", "batch", "cache", "feed", "ledger", "notify"];

/** The n-th cluster of a fleet of so many. */
export function clusterOf(n, count) {
  const regions = REGIONS.slice(0, Math.max(3, Math.min(REGIONS.length, Math.ceil(count / 5))));
  const [provider, region] = regions[n % regions.length];
  const role = ROLES[Math.floor(n / regions.length) % ROLES.length];
  const turn = Math.floor(n / (regions.length * ROLES.length)) + 1;
  const name = `prod-${region}-${role}-k8s-${String(turn).padStart(2, "0")}`;
  return {
    name,
    provider,
    region,
    zone: `${region}${"abc"[n % 3]}`,
    hasGpus: role.endsWith("gpu"),
  };
}

/** What the agent of a cluster reports. */
function statusOf(cluster, n, ready) {
  const cores = [32, 64, 96, 128][n % 4];
  const gpus = cluster.hasGpus ? { "nvidia.com/gpu": "16" } : {};
  const busy = n % 7 === 3 ? 0.97 : 0.25 + (n % 5) * 0.12;
  return {
    kubernetesVersion: "v1.33.4",
    apiEnablements: [
      { groupVersion: "apps/v1", resources: [{ kind: "Deployment", name: "deployments" }] },
    ],
    conditions: [
      {
        type: "Ready",
        status: ready ? "True" : "False",
        reason: ready ? "ClusterReady" : "ClusterNotReachable",
        message: ready
          ? "cluster is healthy and ready to accept workloads"
          : "cluster is not reachable",
        lastTransitionTime: new Date().toISOString().replace(/\.\d+/, ""),
      },
    ],
    resourceSummary: {
      allocatable: {
        cpu: String(cores),
        memory: `${cores * 4}Gi`,
        pods: String(cores * 8),
        ...gpus,
      },
      allocated: {
        cpu: String(Math.round(cores * busy)),
        memory: `${Math.round(cores * 4 * busy * 0.6)}Gi`,
        pods: String(Math.round(cores * 8 * busy * 0.5)),
        ...(cluster.hasGpus ? { "nvidia.com/gpu": "11" } : {}),
      },
    },
  };
}

/** The n-th workload, on one to three clusters. */
function bindingOf(n, count, isCalm) {
  const [namespace, app] = [NAMESPACES[n % NAMESPACES.length], APPS[n % APPS.length]];
  const name = `${app}-${n}`;
  const isCopied = n % 23 === 11;
  const isStuck = !isCalm && n % 31 === 5;
  const on = Array.from({ length: 1 + (n % 3) }, (_, i) => ({
    name: clusterOf((n * 7 + i * 3) % count, count).name,
    replicas: isCopied ? 2 : 1 + ((n + i) % 9),
  })).filter(({ name: it }, i, all) => all.findIndex((other) => other.name === it) === i);
  const replicas = isCopied ? 2 : on.reduce((sum, it) => sum + it.replicas, 0) + (isStuck ? 3 : 0);
  const hasGpus = on.every((it) => it.name.includes("-gpu-"));
  const gpus = hasGpus && n % 2 === 0 ? { "nvidia.com/gpu": "1" } : {};
  return {
    object: {
      apiVersion: "work.karmada.io/v1alpha2",
      kind: "ResourceBinding",
      metadata: { name: `${name}-deployment`, namespace, labels: { app } },
      spec: {
        resource: { apiVersion: "apps/v1", kind: "Deployment", namespace, name, uid: `u-${n}` },
        replicas,
        replicaRequirements: { resourceRequest: { cpu: "250m", memory: "256Mi", ...gpus } },
        clusters: on,
        // Nobody moves what stands here.
        schedulerName: "by-hand",
        placement: {
          clusterAffinity: { clusterNames: on.map((it) => it.name) },
          replicaScheduling: { replicaSchedulingType: isCopied ? "Duplicated" : "Divided" },
        },
      },
    },
    status: {
      schedulerObservedGeneration: 1,
      lastScheduledTime: new Date(Date.now() - (n % 50) * 60_000)
        .toISOString()
        .replace(/\.\d+/, ""),
      conditions: [scheduled(!isStuck, count)],
      aggregatedStatus: on.map(({ name: clusterName, replicas: own = replicas }, i) => ({
        clusterName,
        applied: true,
        health: "Healthy",
        status: {
          replicas: own,
          readyReplicas: !isCalm && n % 29 === 3 && i === 0 ? own - 1 : own,
        },
      })),
    },
  };
}

const scheduled = (fits, count) => ({
  type: "Scheduled",
  status: fits ? "True" : "False",
  reason: fits ? "Success" : "NoClusterFit",
  message: fits
    ? "Binding has been scheduled successfully."
    : `0/${count} clusters are available: ${count - 2} cluster(s) did not match the placement cluster affinity constraint`,
  lastTransitionTime: new Date().toISOString().replace(/\.\d+/, ""),
});

/** Runs a task for each number below `count`, several at a time. */
export async function storm(count, each) {
  let next = 0;
  const worker = async () => {
    while (next < count) {
      next += 1;
      await each(next - 1);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_A_TIME, count) }, worker));
}

/** Sends requests to a server with the certificate of its administrator. */
export function client(certificates, address) {
  const file = (name) => readFileSync(join(certificates, name));
  const [host, port] = address.split(":");
  const agent = new Agent({
    ca: file("ca.crt"),
    cert: file("admin.crt"),
    key: file("admin.key"),
    keepAlive: true,
    maxSockets: AT_A_TIME,
  });
  return (method, path, object) => {
    const kind = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    return new Promise((resolve, reject) => {
      const call = request({ agent, host, port, method, path, headers: { "content-type": kind } });
      call.on("error", reject);
      call.on("response", (answer) => {
        let text = "";
        answer.on("data", (piece) => (text += piece));
        answer.on("end", () => {
          if (answer.statusCode < 300) resolve(JSON.parse(text));
          else reject(new Error(`${method} ${path}: ${answer.statusCode} ${text}`));
        });
      });
      call.end(object && JSON.stringify(object));
    });
  };
}

/**
 * A server with a fleet, and the page in front of it.
 * @param {{ clusters: number, workloads: number, isCalm?: boolean, flags?: string[], uiFlags?: string[] }} size
 */
export async function fleet({ clusters, workloads, isCalm = false, flags = [], uiFlags = [] }) {
  const place = folder();
  const certificates = join(place.path, "certs");
  const server = await start(
    [
      "serve",
      "--secure-port",
      "0",
      "--database-url",
      "memory:",
      "--cert-dir",
      certificates,
      ...flags,
    ],
    /ready at https:\/\/(\S+) /,
    { folder: place.path },
  );
  const send = client(certificates, server.match[1]);
  const report = (n, ready) => {
    const cluster = clusterOf(n, clusters);
    return send("PATCH", `${CLUSTERS}/${cluster.name}/status`, {
      status: statusOf(cluster, n, ready),
    });
  };
  await storm(clusters, async (n) => {
    const { name, provider, region, zone } = clusterOf(n, clusters);
    await send("POST", CLUSTERS, {
      apiVersion: "cluster.karmada.io/v1alpha1",
      kind: "Cluster",
      metadata: { name, labels: { env: "prod" } },
      spec: { syncMode: "Pull", provider, region, zone },
    });
    await report(n, true);
  });
  await storm(workloads, async (n) => {
    const { object, status } = bindingOf(n, clusters, isCalm);
    const path = `${WORK}/${object.metadata.namespace}/resourcebindings`;
    await send("POST", path, object);
    await send("PATCH", `${path}/${object.metadata.name}/status`, { status });
  });
  const ui = await start(
    ["ui", "--kubeconfig", join(certificates, "admin.kubeconfig"), ...uiFlags],
    /is at (\S+)/,
    { folder: place.path },
  );
  return {
    send,
    entrance: ui.match[1],
    origin: new URL(ui.match[1]).origin,
    kubeconfig: join(certificates, "admin.kubeconfig"),
    /** These clusters can no longer be reached. */
    lose: (numbers) => Promise.all(numbers.map((n) => report(n, false))),
    recover: (numbers) => Promise.all(numbers.map((n) => report(n, true))),
    name: (n) => clusterOf(n, clusters).name,
    /** The server is gone, and the page is still there. */
    kill: () => server.stop("SIGKILL"),
    stop: async () => {
      await ui.stop();
      await server.stop("SIGKILL");
      place.remove();
    },
  };
}
