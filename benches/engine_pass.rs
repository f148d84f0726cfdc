//! Measures a Karmada scheduling pass: microseconds and allocations for each binding, on one
//! thread.
//!
//! `cargo bench --bench engine_pass` measures all numbers of clusters, `-- 1000` only one of them.
//! The clusters and 200 mixed bindings come from benches/data/schedule-*.json.gz. Karmada's own
//! algorithm was timed on the same data and the same machine.
//!
//! `cold` decides each binding alone against clusters that are already lowered, and shares nothing.
//! `batch` decides all bindings in one pass. Each binding is timed in several rounds, and the
//! median counts. For a long batch it is the median of its stretches of 200 bindings.
//!
//! `-- flat` measures batches of 1,000, 10,000 and 100,000 and prints the ratio of their costs. The
//! batches take turns, and the time is the thread's CPU time. Otherwise a machine that becomes
//! slower in the meantime would look like a cost that grows with the batch.

#![expect(clippy::print_stdout, reason = "its output is a table")]

use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ballast::api::karmada::cluster::v1alpha1::Cluster;
use ballast::api::karmada::work::v1alpha2::ResourceBinding;
use ballast::engine::karmada::{ClusterSet, Decision, Pass, Profile, Request, Workloads, decide, decide_all};
use ballast::scheduler::convert::karmada as convert;
use serde::Deserialize;

/// The number of clusters, and Karmada's mean time per binding in microseconds.
const SIZES: [(usize, f64); 3] = [(100, 720.0), (1000, 9070.0), (5000, 63600.0)];

#[derive(Deserialize)]
struct Input {
    clusters: Vec<Cluster>,
    bindings: Vec<ResourceBinding>,
}

fn main() {
    let only: Option<usize> = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let wanted = |size: &(usize, f64)| only.is_none_or(|only| only == size.0);
    if std::env::args().any(|argument| argument == "flat") {
        return SIZES.into_iter().filter(wanted).for_each(|(size, _)| measure_flatness(size));
    }
    println!("| clusters | way | mean | p50 | p99 | allocations | faster than Karmada |");
    println!("|---|---|---|---|---|---|---|");
    for (size, karmada) in SIZES.into_iter().filter(wanted) {
        measure(size, karmada);
    }
}

fn measure(size: usize, karmada_us: f64) {
    let input = read(size);
    let profile = Profile::karmada();
    let workloads = Workloads::default();
    let fleet = ClusterSet::new(input.clusters.iter().map(|cluster| convert::cluster(cluster).0));
    let requests: Vec<Request> = input.bindings.iter().map(convert::resource_binding).collect();

    let cold = |request: &Request| decide(&fleet, &workloads, request, &profile);
    let alone: Vec<Decision> = requests.iter().map(cold).collect();
    let together = decide_all(&fleet, &workloads, &requests, &profile);
    assert_eq!(alone, together, "a batch decides what single passes decide");
    assert!(together.iter().all(Decision::is_success));

    let mut times = vec![Vec::new(); requests.len()];
    for _ in 0..ROUNDS {
        for (request, times) in requests.iter().zip(&mut times) {
            let start = Instant::now();
            black_box(cold(request));
            times.push(start.elapsed());
        }
    }
    let allocations = counted(|| requests.iter().for_each(|request| drop(black_box(cold(request)))));
    row(size, "cold", &mut medians(times), allocations / requests.len() as f64, karmada_us);

    let mut times = vec![Vec::new(); requests.len()];
    for _ in 0..ROUNDS {
        let mut pass = Pass::new(&fleet, &workloads, &profile);
        for (request, times) in requests.iter().zip(&mut times) {
            let start = Instant::now();
            black_box(pass.decide(request));
            times.push(start.elapsed());
        }
    }
    let batch = || drop(black_box(decide_all(&fleet, &workloads, &requests, &profile)));
    row(size, "batch of 200", &mut medians(times), counted(batch) / requests.len() as f64, karmada_us);

    for count in [1_000, 10_000, 100_000] {
        let mut pass = Pass::new(&fleet, &workloads, &profile);
        let mut decide_each = || requests.iter().for_each(|request| drop(black_box(pass.decide(request))));
        let rounds = count / requests.len();
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let start = Instant::now();
            decide_each();
            times.push(start.elapsed() / requests.len() as u32);
        }
        let allocations = counted(decide_each) / requests.len() as f64;
        row(size, &format!("batch of {count}"), &mut medians(vec![times]), allocations, karmada_us);
    }

    let mut changed = fleet.clone();
    let mut times = Vec::new();
    for (turn, cluster) in input.clusters.iter().cycle().take(2000).enumerate() {
        let mut cluster = cluster.clone();
        let summary = cluster.status.resource_summary.get_or_insert_default();
        summary.allocated.insert("pods".to_owned(), (turn as i64 % 90).into());
        cluster.metadata.labels.insert("turn".to_owned(), (turn % 7).to_string());
        let start = Instant::now();
        changed.upsert(convert::cluster(&cluster).0);
        times.push(start.elapsed());
    }
    row(size, "one cluster changed", &mut times, f64::NAN, f64::NAN);

    let mut times = Vec::new();
    for binding in &input.bindings {
        let start = Instant::now();
        black_box(convert::resource_binding(binding));
        times.push(start.elapsed());
    }
    let lowering = || input.bindings.iter().for_each(|binding| drop(black_box(convert::resource_binding(binding))));
    row(size, "one binding lowered", &mut times, counted(lowering) / input.bindings.len() as f64, f64::NAN);
}

/// Returns the CPU time of this thread, or elapsed time if the kernel does not report it. With a
/// resolution of milliseconds, it only suits long measurements.
fn cpu_time() -> Duration {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanoseconds.map_or_else(|| BEGIN.elapsed(), Duration::from_nanos)
}

const BATCHES: [usize; 3] = [1_000, 10_000, 100_000];
/// Number of measurements of each batch size.
const TURNS: usize = 5;

fn measure_flatness(size: usize) {
    let input = read(size);
    let (profile, workloads) = (Profile::karmada(), Workloads::default());
    let fleet = ClusterSet::new(input.clusters.iter().map(|cluster| convert::cluster(cluster).0));
    let requests: Vec<Request> = input.bindings.iter().map(convert::resource_binding).collect();
    let batch = |count: usize| {
        let mut pass = Pass::new(&fleet, &workloads, &profile);
        let start = cpu_time();
        for request in requests.iter().cycle().take(count) {
            black_box(pass.decide(request));
        }
        (cpu_time() - start).as_nanos() as f64 / 1000.0 / count as f64
    };
    // Small batches are repeated, so that each measurement covers the same number of bindings.
    let most = BATCHES[BATCHES.len() - 1];
    let measured = |count: usize| (0..most / count).map(|_| batch(count)).sum::<f64>() / (most / count) as f64;
    let mut best = [f64::INFINITY; BATCHES.len()];
    for _ in 0..TURNS {
        for (best, count) in best.iter_mut().zip(BATCHES) {
            *best = best.min(measured(count));
        }
    }
    for (us, count) in best.iter().zip(BATCHES) {
        println!("{size} clusters, batches of {count}: {us:.2} us for each binding");
    }
    let (least, most) = best.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), us| (least.min(*us), most.max(*us)));
    println!("{size} clusters: {:.0} % between the cheapest and the dearest", (most / least - 1.0) * 100.0);
}

/// Number of measurements of each binding.
const ROUNDS: usize = 15;

fn medians(times: Vec<Vec<Duration>>) -> Vec<Duration> {
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    times.into_iter().map(median).collect()
}

fn read(size: usize) -> Input {
    let path = format!("{}/benches/data/schedule-{size}.json.gz", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).expect("it is in the repository")).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).expect("it is JSON")
}

fn counted(run: impl FnOnce()) -> f64 {
    allocation_counter::measure(run).count_total as f64
}

fn row(size: usize, way: &str, times: &mut [Duration], allocations: f64, karmada_us: f64) {
    let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
    let mean = us(times.iter().sum::<Duration>()) / times.len() as f64;
    times.sort_unstable();
    let at = |share: f64| us(times[((times.len() - 1) as f64 * share) as usize]);
    let (p50, p99, faster) = (at(0.5), at(0.99), karmada_us / mean);
    let faster = if faster.is_nan() { "-".to_owned() } else { format!("{faster:.0} times") };
    let allocations = if allocations.is_nan() { "-".to_owned() } else { format!("{allocations:.1}") };
    println!("| {size} | {way} | {mean:.2} us | {p50:.2} us | {p99:.2} us | {allocations} | {faster} |");
}
