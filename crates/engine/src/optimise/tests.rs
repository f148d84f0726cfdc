//! Tests of the search on random problems and on small ones with a known best plan.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Goal, Item, Problem, ReplicasBySite, Rules, Site, Solution, on, solve};

/// Capacity from sums of requests, and one rule: an item with a number divisible by seven uses at
/// least two sites.
struct Rooms {
    free: Vec<Vec<i64>>,
    needs: Vec<Arc<[(usize, i64)]>>,
}

impl Rooms {
    fn of(problem: &Problem) -> Rooms {
        let free = |site: &Site| site.has.iter().zip(&site.used).map(|(has, used)| has - used).collect();
        Rooms {
            free: problem.sites.iter().map(free).collect(),
            needs: problem.items.iter().map(|item| Arc::clone(&item.needs)).collect(),
        }
    }
}

impl Rules for Rooms {
    fn fits(&mut self, item: usize, site: u32) -> i64 {
        let free = &self.free[site as usize];
        self.needs[item].iter().map(|(resource, amount)| free[*resource] / amount).min().unwrap_or(i64::MAX)
    }

    fn take(&mut self, item: usize, site: u32, replicas: i64) {
        for (resource, amount) in self.needs[item].iter() {
            self.free[site as usize][*resource] -= amount * replicas;
        }
    }

    fn keeps(&mut self, _item: usize, places: &[(u32, i64)]) -> bool {
        places.len() >= 2
    }
}

fn site(has: i64) -> Site {
    Site { has: vec![has], used: vec![0], room: Vec::new(), prices: None }
}

fn item(need: i64, at: &[(u32, i64)], choice: usize) -> Item {
    Item {
        needs: [(0, need)].into(),
        at: at.to_vec(),
        choice: Some(choice),
        most: i64::MAX,
        sites_max: usize::MAX,
        ..Item::default()
    }
}

fn problem(goal: Goal, sites: Vec<Site>, items: Vec<Item>, choices: &[&[u32]]) -> Problem {
    let choices = choices.iter().map(|sites| Box::from(*sites)).collect();
    let mut problem = Problem {
        goal,
        sites,
        items,
        choices,
        domains: Vec::new(),
        budget: None,
        worth: 0.0,
        price: 0.0,
        tolerance: 0.0,
    };
    for item in &problem.items {
        for (site, replicas) in &item.at {
            for (resource, amount) in item.needs.iter() {
                problem.sites[*site as usize].used[*resource] += amount * replicas;
            }
        }
    }
    problem
}

fn solved(problem: &Problem) -> Solution {
    solve(problem, &mut Rooms::of(problem))
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

#[test]
fn pl1_a_new_empty_cluster_takes_its_share_with_the_fewest_moves() {
    let sites = vec![site(100), site(100), site(100)];
    let items = (0..12).map(|_| item(10, &[(0, 1)], 0)).take(6).chain((0..6).map(|_| item(10, &[(1, 1)], 0))).collect();
    let solution = solved(&problem(Goal::Balance, sites, items, &[&[0, 1, 2]]));
    assert!(near(solution.before, 0.2) && near(solution.after, 0.0) && near(solution.bound, 0.0), "{solution:?}");
    assert_eq!(solution.moved, 4, "two of six leave each of the two, and none moves twice");
}

#[test]
fn pl1_an_item_that_would_move_fewer_replicas_than_it_has_to_stays() {
    let sites = vec![site(100), site(100)];
    let mut problem = problem(Goal::Balance, sites, vec![item(10, &[(0, 4)], 0)], &[&[0, 1]]);
    for (fewest, moved) in [(2, 2), (3, 0)] {
        problem.items[0].fewest = fewest;
        assert_eq!(solved(&problem).moved, moved, "{fewest} at least");
    }
}

#[test]
fn pl1_large_replicas_move_before_small_ones() {
    let sites = vec![site(100), site(100)];
    let mut items: Vec<Item> = (0..20).map(|_| item(1, &[(0, 1)], 0)).collect();
    items.push(item(10, &[(0, 2)], 0));
    let solution = solved(&problem(Goal::Balance, sites, items, &[&[0, 1]]));
    assert!(near(solution.after, 0.0), "{solution:?}");
    assert_eq!(solution.moved, 2, "one of ten units would leave ten of one");
}

#[test]
fn pl1_replicas_make_room_for_each_other() {
    // Items on the first site may only go to the second, and items there only to the third.
    let sites = vec![site(100), site(100), site(100)];
    let first: Vec<Item> = (0..9).map(|_| item(10, &[(0, 1)], 0)).collect();
    let second = (0..6).map(|_| item(10, &[(1, 1)], 1));
    let items = first.into_iter().chain(second).collect();
    let solution = solved(&problem(Goal::Balance, sites, items, &[&[0, 1], &[1, 2]]));
    assert!(near(solution.after, 0.0) && near(solution.bound, 0.0), "{solution:?}");
}

#[test]
fn pl1_what_cannot_leave_bounds_every_plan() {
    let sites = vec![site(100), site(100)];
    let mut items = vec![item(10, &[(0, 8)], 0)];
    items[0].choice = None;
    items.push(item(5, &[(0, 2)], 0));
    let solution = solved(&problem(Goal::Balance, sites, items, &[&[0, 1]]));
    assert!(near(solution.before, 0.45) && near(solution.after, 0.35) && near(solution.bound, 0.35), "{solution:?}");
}

#[test]
fn pl1_what_may_only_be_on_some_sites_bounds_every_plan() {
    // Load confined to the first two sites is 0.7 of them, whatever else leaves.
    let sites = vec![site(100), site(100), site(100)];
    let items = vec![item(10, &[(0, 9), (1, 5)], 0), item(10, &[(1, 3)], 1)];
    let solution = solved(&problem(Goal::Balance, sites, items, &[&[0, 1], &[1, 2]]));
    let beyond_mean = |level: f64| level - 17.0 / 30.0;
    assert!(near(solution.before, beyond_mean(0.9)), "{solution:?}");
    assert!(near(solution.after, beyond_mean(0.7)) && near(solution.bound, beyond_mean(0.7)), "{solution:?}");
}

#[test]
fn pl1_what_is_full_takes_nothing_and_the_next_site_counts() {
    // Items on the first site could only go to the second, which is full until something leaves it.
    let sites = vec![site(100), site(100), site(100)];
    let items = vec![item(10, &[(0, 10)], 0), item(10, &[(1, 10)], 1)];
    let mut problem = problem(Goal::Balance, sites, items, &[&[0, 1], &[1, 2]]);
    assert!(near(solved(&problem).bound, 0.0), "without known capacity, all may come");
    problem.sites.iter_mut().for_each(|site| site.room = vec![site.has[0] - site.used[0]]);
    let solution = solved(&problem);
    assert_eq!((solution.places.clone(), solution.unrelieved.clone()), (vec![(1, vec![(1, 5), (2, 5)])], vec![0]));
    assert!(near(solution.before, 0.5) && near(solution.after, 0.0) && near(solution.bound, 0.0), "{solution:?}");
}

/// Returns a problem with a full site without items, one used 60 %, and an empty one.
fn beside_a_full_site(need: i64, replicas: i64) -> Problem {
    let sites = vec![site(100), site(200), site(200)];
    let mut problem = problem(Goal::Balance, sites, vec![item(need, &[(1, replicas)], 0)], &[&[0, 1, 2]]);
    problem.sites[0].used[0] = 90;
    problem.sites.iter_mut().for_each(|site| site.room = vec![site.has[0] - site.used[0]]);
    problem
}

#[test]
fn a_site_that_nothing_may_leave_does_not_stop_the_rest() {
    let mut problem = beside_a_full_site(10, 12);
    for tolerance in [0.0, 0.02] {
        problem.tolerance = tolerance;
        let solution = solved(&problem);
        assert_eq!(solution.places, [(0, vec![(1, 6), (2, 6)])], "{solution:?}");
        assert!(near(solution.before, 0.3) && near(solution.after, 0.0) && near(solution.bound, 0.0), "{solution:?}");
        assert_eq!(solution.unrelieved, [0]);
    }
    // Already even: the same site is left out of the figure.
    problem.items[0].at = vec![(1, 6), (2, 6)];
    (problem.sites[1].used, problem.sites[2].used) = (vec![60], vec![60]);
    let solution = solved(&problem);
    assert_eq!((solution.moved, solution.unrelieved.clone()), (0, vec![0]));
    assert!(near(solution.before, 0.0) && near(solution.bound, 0.0), "{solution:?}");
}

#[test]
fn a_site_whose_replicas_fit_nowhere_does_not_stop_the_rest() {
    // The replica on the first site is larger than the free capacity of any other site.
    let mut problem = beside_a_full_site(10, 12);
    problem.sites[0] = Site { has: vec![1_000], used: vec![900], room: vec![100], prices: None };
    problem.items.push(item(500, &[(0, 1)], 0));
    let solution = solved(&problem);
    assert_eq!((solution.places.clone(), solution.unrelieved.clone()), (vec![(0, vec![(1, 6), (2, 6)])], vec![0]));
}

#[test]
fn a_site_that_is_relieved_in_part_does_not_stop_the_rest() {
    let mut problem = beside_a_full_site(10, 12);
    problem.items.push(item(10, &[(0, 1)], 0));
    let solution = solved(&problem);
    let fleet = 210.0 / 500.0;
    assert!(near(solution.before, 0.9 - fleet) && near(solution.after, 0.8 - fleet), "{solution:?}");
    assert!(near(solution.bound, solution.after) && solution.unrelieved.is_empty(), "{solution:?}");
    let on = |site| solution.places.iter().map(|(_, places)| on(places, site)).sum::<i64>();
    assert_eq!((solution.moved, on(2)), (6, 6), "one leaves the first site, and the others are even: {solution:?}");
}

#[test]
fn each_set_of_sites_that_nothing_leaves_is_evened_out() {
    let sites = (0..6).map(|_| site(100)).collect();
    let items = vec![item(10, &[(0, 9)], 0), item(10, &[(2, 7)], 1), item(10, &[(4, 4)], 2)];
    let solution = solved(&problem(Goal::Balance, sites, items, &[&[0, 1], &[2, 3], &[4, 5]]));
    let halves = solution.places.iter().map(|(_, places)| places.iter().map(|(_, count)| *count).min().unwrap());
    assert_eq!(halves.collect::<Vec<_>>(), [4, 3, 2], "{solution:?}");
}

#[test]
fn a_gain_within_the_tolerance_moves_nothing() {
    let sites = vec![site(1_000), site(1_000)];
    let items = vec![item(10, &[(0, 52)], 0), item(10, &[(1, 48)], 0)];
    let mut problem = problem(Goal::Balance, sites, items, &[&[0, 1]]);
    for (tolerance, moved, is_within) in [(0.0, 2, false), (0.019, 2, false), (0.02, 0, true)] {
        problem.tolerance = tolerance;
        let solution = solved(&problem);
        assert_eq!((solution.moved, solution.is_within_tolerance), (moved, is_within), "{tolerance}: {solution:?}");
        assert!(near(solution.bound, 0.0) && near(solution.before, 0.02), "{solution:?}");
    }
    // Moves that are required by `start` are made anyway.
    problem.items[0].start = Some(vec![(0, 51), (1, 1)]);
    let solution = solved(&problem);
    assert_eq!((solution.moved, solution.is_within_tolerance), (1, true), "{solution:?}");
}

#[test]
fn a_tolerance_counts_in_the_unit_of_each_goal() {
    let priced = |price| Site { prices: Some(vec![Some(price)]), ..site(100) };
    let cost = problem(Goal::Cost, vec![priced(1.0), priced(0.97)], vec![item(10, &[(0, 4)], 0)], &[&[0, 1]]);
    let sites = vec![site(100), site(100)];
    let items = vec![item(10, &[(0, 5)], 0), item(10, &[(1, 3)], 0)];
    let pack = problem(Goal::Pack, sites, items, &[&[0, 1]]);
    for (problem, enough, too_little) in [(cost, 0.029, 0.03), (pack, 0.0, 1.0)] {
        for (tolerance, moves) in [(0.0, true), (enough, true), (too_little, false)] {
            let solution = solved(&Problem { tolerance, ..problem.clone() });
            assert_eq!((solution.moved > 0, solution.is_within_tolerance), (moves, !moves), "{solution:?}");
        }
    }
}

#[test]
fn a_small_saving_of_a_replica_is_left_beside_a_large_one() {
    let priced = |price| Site { prices: Some(vec![Some(price)]), ..site(100) };
    let sites = vec![priced(1.0), priced(0.99), priced(2.0)];
    let items = vec![item(10, &[(0, 4)], 0), item(10, &[(2, 4)], 0)];
    let mut problem = problem(Goal::Cost, sites, items, &[&[0, 1, 2]]);
    problem.tolerance = 0.02;
    assert_eq!(solved(&problem).places, [(1, vec![(1, 4)])], "one per cent is too little");
}

#[test]
fn a_price_that_is_missing_is_not_zero() {
    let priced = |prices: [Option<f64>; 2]| Site {
        has: vec![100, 100],
        used: vec![0, 0],
        room: Vec::new(),
        prices: Some(prices.to_vec()),
    };
    let sites = vec![priced([Some(4.0), Some(1.0)]), priced([Some(5.0), None])];
    let both = Item { needs: [(0, 1), (1, 8)].into(), ..item(1, &[(0, 4)], 0) };
    let first = item(1, &[(1, 4)], 0);
    let solution = solved(&problem(Goal::Cost, sites, vec![both, first], &[&[0, 1]]));
    assert_eq!(solution.places, [(1, vec![(0, 4)])], "the second item needs the first resource alone");
}

#[test]
fn pl1_one_site_no_room_or_nothing_that_may_move_is_a_plan_of_nothing() {
    let fixed = Item { choice: None, ..item(10, &[(0, 9)], 0) };
    let fleets = [
        (vec![], vec![], vec![]),
        (vec![site(100)], vec![item(10, &[(0, 9)], 0)], vec![0]),
        (vec![site(100), site(100)], vec![fixed], vec![0, 1]),
        (vec![site(100), site(5)], vec![item(10, &[(0, 9)], 0)], vec![0, 1]),
        (vec![site(i64::MAX), site(i64::MAX)], vec![item(i64::MAX / 2, &[(0, 1)], 0)], vec![0]),
    ];
    for goal in [Goal::Balance, Goal::Cost, Goal::Pack, Goal::Survive] {
        for (sites, items, choice) in &fleets {
            let problem = problem(goal, sites.clone(), items.clone(), &[choice]);
            let solution = solved(&problem);
            assert_eq!((solution.moved, solution.places.len()), (0, 0), "{goal:?} {problem:?}");
            assert!(near(solution.before, solution.after), "{goal:?} {solution:?}");
        }
    }
}

#[test]
fn pl2_a_budget_of_zero_moves_nothing_and_the_bound_says_so() {
    let sites = vec![site(100), site(100)];
    let mut problem = problem(Goal::Balance, sites, vec![item(10, &[(0, 8)], 0)], &[&[0, 1]]);
    problem.budget = Some(0);
    let solution = solved(&problem);
    assert_eq!((solution.moved, solution.places.len()), (0, 0));
    assert!(near(solution.bound, solution.before), "{solution:?}");
    problem.budget = Some(3);
    let solution = solved(&problem);
    assert_eq!(solution.moved, 3);
    assert!(near(solution.after, 0.1) && near(solution.bound, 0.1), "{solution:?}");
}

#[test]
fn pl3_moves_that_gain_little_for_their_replicas_are_left_and_stay_left() {
    // One large replica is worth moving. Evening out the rest takes many small ones.
    let sites = vec![site(1_000), site(1_000)];
    let mut items: Vec<Item> = (0..200).map(|_| item(1, &[(0, 1)], 0)).collect();
    items.push(item(200, &[(0, 1)], 0));
    let mut problem = problem(Goal::Balance, sites, items, &[&[0, 1]]);
    problem.sites[0].used[0] += 100;
    let all = solved(&problem);
    problem.worth = 0.5;
    let some = solved(&problem);
    assert_eq!((some.moved, all.moved > 40), (1, true), "{all:?}");
    // Solve again from the new placement.
    for (item, places) in &some.places {
        problem.items[*item].at.clone_from(places);
    }
    problem.sites[0].used[0] -= 200;
    problem.sites[1].used[0] += 200;
    problem.price = some.price;
    assert_eq!(solved(&problem).moved, 0);
}

#[test]
fn pl4_replicas_go_to_the_cheapest_site_that_has_room() {
    let priced = |has, price| Site { prices: Some(vec![Some(price)]), ..site(has) };
    let sites = vec![priced(100, 2.0), priced(30, 1.0), priced(100, 1.5), site(100)];
    let items = vec![item(10, &[(0, 4), (3, 1)], 0)];
    let solution = solved(&problem(Goal::Cost, sites, items, &[&[0, 1, 2, 3]]));
    assert!(near(solution.before, 80.0) && near(solution.after, 45.0), "{solution:?}");
    assert_eq!(solution.places, [(0, vec![(1, 3), (2, 1), (3, 1)])], "the one without a price is left alone");
    assert!(solution.bound <= 40.0 + 1e-9);
}

#[test]
fn pl5_the_emptiest_sites_are_emptied() {
    let sites = vec![site(100), site(100), site(100)];
    let items = vec![item(10, &[(0, 5)], 0), item(10, &[(1, 3)], 0), item(10, &[(2, 2)], 0)];
    let solution = solved(&problem(Goal::Pack, sites, items, &[&[0, 1, 2]]));
    assert_eq!((solution.before, solution.after, solution.bound, solution.moved), (3.0, 1.0, 1.0, 5));
    let small = vec![site(60), site(100), site(100)];
    let items = vec![item(10, &[(0, 5)], 0), item(10, &[(1, 5)], 0), item(10, &[(2, 5)], 0)];
    let solution = solved(&problem(Goal::Pack, small, items, &[&[0, 1, 2]]));
    assert_eq!((solution.after, solution.bound), (2.0, 2.0), "fifteen replicas do not fit on one");
}

#[test]
fn pl8_what_could_be_elsewhere_leaves_the_only_refuge_of_others() {
    // Items on the first site may only go to the second, which is full of items that may go
    // anywhere.
    let sites = vec![site(100), site(100), site(100)];
    let items = vec![item(10, &[(0, 6)], 0), item(10, &[(1, 8)], 1), item(10, &[(2, 2)], 1)];
    let mut problem = problem(Goal::Survive, sites, items, &[&[0, 1], &[0, 1, 2]]);
    problem.items.iter_mut().for_each(|item| item.refuge = item.choice);
    problem.domains = (0..3).map(|site| [site].into()).collect();
    let solution = solved(&problem);
    assert_eq!((solution.before, solution.after, solution.bound, solution.moved), (6.0, 0.0, 0.0, 4), "{solution:?}");
    assert_eq!(solution.places, [(1, vec![(1, 4), (2, 4)])]);
    // No plan saves replicas if their own choice lies in the lost domain.
    problem.choices[0] = [0].into();
    let solution = solved(&problem);
    assert_eq!((solution.before, solution.after, solution.bound, solution.moved), (6.0, 6.0, 6.0, 0), "{solution:?}");
}

fn problems() -> impl Strategy<Value = Problem> {
    let goal = prop_oneof![Just(Goal::Balance), Just(Goal::Cost), Just(Goal::Pack), Just(Goal::Survive)];
    let sites = prop::collection::vec((20_i64..200, 0_i64..20, prop::option::of(0_u8..5)), 2..7);
    let items = prop::collection::vec((1_i64..9, prop::collection::vec(0_i64..5, 7), 0_usize..4, 0_u8..16), 1..24);
    let budget = prop::option::of(0_i64..30);
    (goal, sites, items, budget, prop_oneof![Just(0.0), Just(0.5), Just(1.0)]).prop_map(
        |(goal, sites, items, budget, worth)| {
            let count = sites.len() as u32;
            let all: Vec<u32> = (0..count).collect();
            let even: Vec<u32> = all.iter().copied().filter(|site| site % 2 == 0).collect();
            let low: Vec<u32> = all.iter().copied().filter(|site| *site < count.div_ceil(2)).collect();
            let site = |(has, used, price): (i64, i64, Option<u8>)| Site {
                has: vec![has],
                used: vec![used],
                room: Vec::new(),
                prices: price.map(|price| vec![Some(f64::from(price))]),
            };
            let sites = sites.into_iter().map(site).collect();
            let items = items.into_iter().enumerate().map(|(number, (need, counts, choice, flags))| {
                let at: ReplicasBySite =
                    counts.into_iter().zip(0..count).map(|(replicas, site)| (site, replicas)).collect();
                Item {
                    needs: [(0, need)].into(),
                    at: at.into_iter().filter(|(_, replicas)| *replicas > 0).collect(),
                    choice: (choice < 3).then_some(choice),
                    most: if flags & 1 == 0 { i64::MAX } else { 2 },
                    sites_max: if flags & 2 == 0 { usize::MAX } else { 2 },
                    is_whole: flags & 12 == 12,
                    is_ruled: number % 7 == 0,
                    ..Item::default()
                }
            });
            let items = items.filter(|item| !item.at.is_empty()).collect();
            let mut problem = problem(goal, sites, items, &[&all, &even, &low]);
            (problem.budget, problem.worth) = (budget, worth);
            problem.sites.iter_mut().for_each(|site| site.room = vec![(site.has[0] - site.used[0]).max(0)]);
            problem.domains = all.chunks(2).map(Box::from).collect();
            problem.items.iter_mut().for_each(|item| item.refuge = item.choice);
            problem
        },
    )
}

proptest! {
    #[test]
    fn pl1_no_plan_breaks_a_rule_and_no_plan_is_better_than_the_bound(problem in problems()) {
        let solution = solved(&problem);
        prop_assert_eq!(&solution, &solved(&problem), "the same problem has the same plan");
        prop_assert!(solution.bound <= solution.after + 1e-9, "{:?}", solution);
        prop_assert!(solution.after <= solution.before + 1e-9, "{:?}", solution);
        let mut arrived = vec![0_i64; problem.sites.len()];
        let mut moved = 0;
        for (number, places) in &solution.places {
            let item = &problem.items[*number];
            let sum = |places: &ReplicasBySite| places.iter().map(|(_, replicas)| replicas).sum::<i64>();
            prop_assert_eq!(sum(places), sum(&item.at));
            prop_assert!(places.windows(2).all(|pair| pair[0].0 < pair[1].0) && places.iter().all(|(_, count)| *count > 0));
            let mut of_item = 0;
            for (site, replicas) in places {
                let more = replicas - on(&item.at, *site);
                if more > 0 {
                    prop_assert!(problem.choices[item.choice.unwrap()].contains(site));
                    arrived[*site as usize] += more * item.needs[0].1;
                    of_item += more;
                }
            }
            prop_assert!(of_item > 0 && of_item <= item.most);
            prop_assert!(places.len() <= item.sites_max.max(item.at.len()));
            prop_assert!(!item.is_ruled || places.len() >= 2);
            moved += of_item;
        }
        prop_assert_eq!(moved, solution.moved);
        prop_assert!(problem.budget.is_none_or(|budget| moved <= budget));
        for (site, arrived) in problem.sites.iter().zip(arrived) {
            prop_assert!(arrived == 0 || arrived <= site.has[0] - site.used[0], "room is counted before anything leaves");
        }
    }
}
