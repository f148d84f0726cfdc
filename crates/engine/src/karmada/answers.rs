//! Estimates of the estimators in member clusters: how many more copies of a workload fit there.
//!
//! Estimates are inputs of a pass, like the clusters; the engine sends no queries. Before a pass,
//! its caller gets from [`Pass::shortlist`] the clusters to query. A member's estimate can only
//! lower the estimate that the engine computes from the cluster's own report. A cluster without one
//! is estimated from its report alone.
//!
//! An estimator sees the pods of its cluster, and not the replicas that are about to arrive. So
//! each estimate comes with the capacity that was reserved since, and the pass deducts each arrival
//! (`ledger`, `room`). Reserved capacity is summed per resource, so workloads of other requirements
//! never see too much of it as free.

use std::collections::HashMap;
use std::sync::Arc;

use super::listing::counts_capacity;
use super::pass::Pass;
use super::request::{Mode, Request, Shared, Target};
use super::room::{Amounts, Needs};
use crate::bits::Bits;

/// A query to estimators. Bindings with equal queries share the results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// Whether the query counts whole sets of components instead of replicas.
    pub is_of_sets: bool,
    /// The encoded query, without the name of the cluster.
    pub body: Box<[u8]>,
}

/// The queries for one workload. The placement decides which of them applies.
#[derive(Clone, Debug)]
pub struct Questions {
    pub replicas: Shared<Question>,
    /// `None` if the workload has no components.
    pub sets: Option<Shared<Question>>,
}

/// The estimate of one cluster for one query.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The number of copies that fit. `i32::MAX` means that no limit is known.
    pub said: i32,
    /// Capacity that was reserved in the cluster and that the estimate does not include.
    pub given: Arc<Amounts>,
}

/// The estimates for one query, by cluster.
type AnswerOfEach = HashMap<Arc<str>, Answer>;

/// The member estimates that a pass uses. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    by_question: Arc<HashMap<Shared<Question>, AnswerOfEach>>,
}

impl Answers {
    pub fn new(by_question: HashMap<Shared<Question>, AnswerOfEach>) -> Answers {
        Answers { by_question: Arc::new(by_question) }
    }

    pub fn is_empty(&self) -> bool {
        self.by_question.is_empty()
    }
}

/// The member estimates of a pass, with the capacity that the pass has reserved since it started.
#[derive(Default)]
pub(super) struct AnsweredRoom {
    pub answers: Answers,
    given: HashMap<Arc<str>, Amounts>,
}

impl AnsweredRoom {
    pub fn new(answers: Answers) -> AnsweredRoom {
        AnsweredRoom { answers, given: HashMap::new() }
    }

    /// Reserves the copies of `to` that are not in `from`, and releases the copies of `from` that
    /// are not in `to`.
    pub fn move_copies(&mut self, request: &Request, from: &[Target], to: &[Target]) {
        let Some(needs) = Needs::of(request).filter(|_| !self.answers.is_empty()) else { return };
        let (each, mut moved) = (needs.amounts(), HashMap::<&Arc<str>, i64>::new());
        for (targets, sign) in [(from, -1), (to, 1)] {
            targets.iter().for_each(|target| *moved.entry(&target.name).or_default() += sign * needs.copies(target));
        }
        for (cluster, copies) in moved {
            self.given.entry(Arc::clone(cluster)).or_default().add(&each, copies);
        }
    }

    /// Reserves `copies` in a cluster.
    pub fn take(&mut self, request: &Request, cluster: &Arc<str>, copies: i64) {
        if let Some(needs) = Needs::of(request).filter(|_| !self.answers.is_empty()) {
            self.given.entry(Arc::clone(cluster)).or_default().add(&needs.amounts(), copies);
        }
    }

    /// Returns the estimates for this workload, if there are any.
    pub fn about(&self, request: &Request, of_sets: bool) -> Option<AnswersAbout<'_>> {
        let questions = request.questions.as_ref()?;
        let question = if of_sets { questions.sets.as_ref()? } else { &questions.replicas };
        let by_cluster = self.answers.by_question.get(question)?;
        let needs = match (of_sets, request.is_divisible()) {
            (false, true) => Needs::Replica(request.requirements.as_deref().cloned()),
            _ => Needs::Set(request.components.as_slice().into()),
        };
        let each = needs.amounts();
        Some(AnswersAbout { by_cluster, given: &self.given, each })
    }
}

/// The estimates for one workload.
pub(super) struct AnswersAbout<'a> {
    by_cluster: &'a HashMap<Arc<str>, Answer>,
    given: &'a HashMap<Arc<str>, Amounts>,
    /// The resources of one copy.
    each: Amounts,
}

impl AnswersAbout<'_> {
    /// Returns the estimate as the cluster's estimator has sent it.
    pub fn said(&self, cluster: &str) -> Option<i32> {
        self.by_cluster.get(cluster).map(|answer| answer.said)
    }

    /// Returns the number of copies that still fit according to the cluster's estimator. `None` if
    /// there is no estimate, or it has no limit.
    pub fn left(&self, cluster: &str) -> Option<i32> {
        let answer = self.by_cluster.get(cluster).filter(|answer| answer.said != i32::MAX)?;
        let displaced = match self.given.get(cluster) {
            None => answer.given.displaces(&self.each),
            Some(given) => {
                let mut all = given.clone();
                all.add(&answer.given, 1);
                all.displaces(&self.each)
            }
        };
        let left = i64::from(answer.said).saturating_sub(displaced);
        Some(left.clamp(0, i64::from(i32::MAX)) as i32)
    }

    /// Returns the lower of `estimate` and the estimate of the cluster's estimator.
    pub fn least(&self, cluster: &str, estimate: i32) -> i32 {
        self.left(cluster).map_or(estimate, |left| left.min(estimate))
    }
}

/// The clusters to query, by query.
#[derive(Default)]
pub struct Shortlist {
    by_question: HashMap<Shared<Question>, Bits>,
}

impl Shortlist {
    pub fn is_empty(&self) -> bool {
        self.by_question.is_empty()
    }
}

impl Pass {
    /// Returns the pass with these member estimates.
    #[must_use]
    pub fn with_answers(mut self, answers: Answers) -> Pass {
        self.answered = AnsweredRoom::new(answers);
        self
    }

    /// Adds member estimates. Known ones for other queries or clusters stay.
    pub fn add_answers(&mut self, more: Answers) {
        let known = Arc::make_mut(&mut self.answered.answers.by_question);
        for (question, by_cluster) in Arc::unwrap_or_clone(more.by_question) {
            known.entry(question).or_default().extend(by_cluster);
        }
    }

    /// Returns the member estimates that this pass uses.
    pub fn answers(&self) -> &Answers {
        &self.answered.answers
    }

    /// Deducts the replicas that arrive at the targets `to` from the member estimates only, for
    /// callers that do not move capacity.
    pub fn take_answered(&mut self, request: &Request, to: &[Target]) {
        self.answered.move_copies(request, &request.targets, to);
    }

    /// Returns whether `decide` would schedule the binding.
    pub fn is_due(&self, request: &Request) -> bool {
        self.asked(request).is_ok()
    }

    /// Adds the clusters with member estimates that can affect the decision for this binding. Adds
    /// none if the capacity of clusters does not matter.
    pub fn shortlist(&mut self, request: &Request, list: &mut Shortlist) {
        let (Ok(placement), Some(questions)) = (self.placeable(request), &request.questions) else { return };
        if request.replicas <= 0 && request.components.is_empty() {
            return;
        }
        let terms = (0..placement.terms.len()).map(Some).chain(placement.terms.is_empty().then_some(None));
        let (mut feasible, mut closed) = (Bits::default(), Bits::default());
        for term in terms {
            // A Steady pass considers all clusters that a Fresh pass considers, and more.
            let cache = self.cache(request, placement, term, Mode::Steady);
            let (context, cache) = (self.context(request, placement, term, Mode::Steady), self.filter_cache(cache));
            if !counts_capacity(&context, cache) {
                continue;
            }
            let question = match super::components::counts_sets(&context) {
                true => questions.sets.as_ref().unwrap_or(&questions.replicas),
                false => &questions.replicas,
            };
            cache.feasible(&context, &mut feasible, &mut closed);
            // The estimate of a closed cluster has no effect, and a lost cluster does not respond.
            feasible.subtract(&closed);
            match list.by_question.get_mut(question) {
                Some(known) => known.union_with(&feasible),
                None => drop(list.by_question.insert(question.clone(), feasible.clone())),
            }
        }
    }

    /// Returns the names of the clusters on a list of this pass, by query.
    pub fn named(&self, list: &Shortlist) -> Vec<(Shared<Question>, Vec<Arc<str>>)> {
        let names = |clusters: &Bits| clusters.iter().map(|at| Arc::clone(&self.fleet.cluster(at).name)).collect();
        list.by_question.iter().map(|(question, clusters)| (question.clone(), names(clusters))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{deployment, ready};
    use super::super::{Cluster, ClusterSet, Division, Placement, Profile, Requirements, Workloads};
    use super::*;
    use ballast_k8s::Quantity;

    fn needing(cpu: i64, mut request: Request) -> Request {
        let amounts = [("cpu".into(), Quantity::from_millis(cpu))];
        request.requirements = Some(Shared::new(Requirements { amounts: amounts.into() }));
        let body = cpu.to_string().into_bytes().into();
        request.questions = Some(Questions { replicas: Shared::new(Question { is_of_sets: false, body }), sets: None });
        request
    }

    fn web(replicas: i32, cpu: i64) -> Request {
        let placement = Placement { division: Division::Aggregated, ..Placement::default() };
        needing(cpu, deployment(placement, replicas, &[]))
    }

    fn answers(request: &Request, said: &[(&str, i32)], given: &Amounts) -> Answers {
        let given = Arc::new(given.clone());
        let answer = |said: i32| Answer { said, given: Arc::clone(&given) };
        let by_cluster = said.iter().map(|(name, said)| (Arc::from(*name), answer(*said))).collect();
        Answers::new([(request.questions.as_ref().unwrap().replicas.clone(), by_cluster)].into())
    }

    fn cluster(name: &str, pods: i64) -> Cluster {
        let mut cluster = ready(name, "", pods);
        let capacity = cluster.capacity.as_mut().unwrap();
        capacity.free = [("cpu".into(), Quantity::from_units(1_000))].into();
        cluster
    }

    fn pass(answers: Answers) -> Pass {
        let fleet = ClusterSet::new([cluster("m1", 100), cluster("m2", 50)]);
        Pass::new(&fleet, &Workloads::default(), &Profile::ours()).with_answers(answers)
    }

    fn decided(answers: Answers, request: &Request) -> Option<Vec<(String, i32)>> {
        let decision = pass(answers).decide(request);
        let targets = decision.targets().filter(|_| decision.is_success())?;
        Some(targets.iter().map(|target| (target.name.to_string(), target.replicas)).collect())
    }

    fn placed(targets: &[(&str, i32)]) -> Option<Vec<(String, i32)>> {
        Some(targets.iter().map(|(name, replicas)| ((*name).to_owned(), *replicas)).collect())
    }

    #[test]
    fn nobody_is_asked_about_a_workload_without_a_question() {
        let asked = |request: &Request| {
            let mut list = Shortlist::default();
            pass(Answers::default()).shortlist(request, &mut list);
            !list.is_empty()
        };
        let web = web(4, 100);
        assert!(asked(&web));
        assert!(!asked(&Request { questions: None, ..web }));
    }

    #[test]
    fn rm10_the_least_of_estimate_and_answer_counts() {
        let web = web(4, 100);
        let with = |said: &[(&str, i32)]| decided(answers(&web, said, &Amounts::default()), &web);
        assert_eq!(with(&[]), placed(&[("m1", 4)]));
        assert_eq!(with(&[("m1", 3)]), placed(&[("m2", 4)]));
        assert_eq!(with(&[("m1", 1), ("m2", 3)]), placed(&[("m1", 1), ("m2", 3)]));
        assert_eq!(with(&[("m1", i32::MAX), ("m2", 0)]), placed(&[("m1", 4)]));
        assert_eq!(with(&[("m1", 1), ("m2", 1)]), None);
    }

    #[test]
    fn rm10_who_asks_another_question_gets_another_answer() {
        let (asked, other) = (web(4, 100), web(4, 200));
        let known = answers(&asked, &[("m1", 0)], &Amounts::default());
        assert_eq!(decided(known.clone(), &asked), placed(&[("m2", 4)]));
        assert_eq!(decided(known, &other), placed(&[("m1", 4)]));
    }

    #[test]
    fn rm12_what_was_given_away_since_the_answer_is_deducted() {
        let web = web(4, 100);
        let mut given = Amounts::default();
        given.add(&Needs::of(&web).unwrap().amounts(), 7);
        let with = |said: i32| decided(answers(&web, &[("m1", said), ("m2", 7)], &given), &web);
        assert_eq!(with(11), placed(&[("m1", 4)]));
        assert_eq!(with(10), None);
        // Replicas of another size are deducted by their resources, rounded up.
        let mut given = Amounts::default();
        given.add(&Needs::of(&needing(150, web.clone())).unwrap().amounts(), 1);
        let left = |said| {
            let answered = AnsweredRoom::new(answers(&web, &[("m1", said)], &given));
            answered.about(&web, false).unwrap().left("m1")
        };
        assert_eq!((left(5), left(1), left(i32::MAX)), (Some(3), Some(0), None));
    }

    #[test]
    fn rm12_a_pass_takes_from_an_answer_what_it_places() {
        let web = web(4, 100);
        let mut pass = pass(answers(&web, &[("m1", 10), ("m2", 0)], &Amounts::default()));
        let on = |replicas| vec![Target { name: "m1".into(), replicas, components: Vec::new() }];
        let left = |pass: &Pass| pass.answered.about(&web, false).unwrap().left("m1");
        assert_eq!(pass.decide(&web).targets(), Some(&*on(4)));
        pass.take_arrivals(&web, &[], &on(4));
        assert_eq!(left(&pass), Some(6));
        pass.move_capacity(&needing(250, web.clone()), &[], &on(1));
        assert_eq!(left(&pass), Some(3));
        pass.move_capacity(&web, &on(4), &on(1));
        assert_eq!(left(&pass), Some(6));
        assert_eq!(pass.capacity(&web, "m1"), 6);
    }

    #[test]
    fn rm11_only_clusters_that_count_are_asked_and_each_question_once() {
        let mut pass = pass(Answers::default());
        let mut list = Shortlist::default();
        for request in [web(4, 100), web(9, 100), web(4, 200), web(0, 300)] {
            pass.shortlist(&request, &mut list);
        }
        let duplicated = needing(400, deployment(Placement::default(), 4, &[]));
        pass.shortlist(&duplicated, &mut list);
        let mut named = pass.named(&list);
        named.sort_by(|a, b| a.0.body.cmp(&b.0.body));
        let both = vec![Arc::from("m1"), Arc::from("m2")];
        let shown: Vec<_> = named.iter().map(|(question, names)| (&*question.body, names)).collect();
        assert_eq!(shown, [(&b"100"[..], &both), (&b"200"[..], &both)]);
    }
}
