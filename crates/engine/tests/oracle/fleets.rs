//! Generates random small sets of clusters. Equal seeds give equal cases.

use super::case::{Bound, By, Case, Division, Group, Kind, Place, Spread};
use super::dice::Dice;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

impl Dice {
    fn number(&mut self, least: i64, most: i64) -> i64 {
        least + self.below((most - least + 1) as usize) as i64
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    fn some_names(&mut self) -> Vec<String> {
        let names = NAMES.iter().filter(|_| self.percent(55)).map(|name| (*name).to_owned()).collect::<Vec<_>>();
        if names.is_empty() { vec![self.of(&NAMES).to_owned()] } else { names }
    }
}

pub fn case(seed: u64) -> Case {
    let dice = &mut Dice(seed);
    let count = dice.number(1, 5) as usize;
    let clusters = (0..count).map(|index| place(dice, NAMES[index])).collect();
    let kind = dice.of(&[Kind::Replicas, Kind::Replicas, Kind::Replicas, Kind::Replicas, Kind::Object, Kind::Set]);
    let replicas = match kind {
        Kind::Object => 0,
        Kind::Set => dice.number(2, 5),
        Kind::Replicas if dice.percent(8) => 0,
        Kind::Replicas => dice.number(1, 6),
    };
    let division = division(dice);
    let mut case = Case { clusters, kind, replicas, division, ..Case::default() };
    case.spread = spread(dice);
    if dice.percent(30) {
        case.groups = (0..dice.number(1, 3)).map(|_| group(dice)).collect();
        case.observed = dice.percent(60).then(|| dice.below(case.groups.len()));
    }
    case.tolerates = dice.percent(20);
    if dice.percent(65) {
        targets(dice, &mut case);
    }
    if dice.percent(8) {
        case.evicting = vec![dice.of(&NAMES).to_owned()];
        case.targets.retain(|(name, _)| !case.evicting.contains(name));
    }
    case.edited = dice.percent(30);
    case.fresh = dice.percent(30);
    case.uid = format!("{:016x}", dice.bits());
    if dice.percent(25) {
        case.bounds = (0..dice.of(&[1, 1, 2])).map(|_| bound(dice)).collect();
    }
    case.what_fits = dice.percent(25);
    for spread in &mut case.spread {
        spread.anyway = dice.percent(15);
    }
    case
}

fn bound(dice: &mut Dice) -> Bound {
    let names = dice.some_names();
    let min = dice.number(0, 3);
    let max = if dice.percent(40) { 0 } else { min.max(1) + dice.of(&[0, 0, 1, 2]) };
    Bound { names, min, max }
}

fn place(dice: &mut Dice, name: &str) -> Place {
    let known = |dice: &mut Dice, values: &[&str]| if dice.percent(6) { String::new() } else { dice.of(values).into() };
    Place {
        name: name.into(),
        region: known(dice, &["r1", "r2", "r3"]),
        zone: known(dice, &["z1", "z2", "z3"]),
        provider: known(dice, &["p1", "p2"]),
        tier: known(dice, &["gold", "iron"]),
        free: dice.number(0, 4),
        tainted: dice.percent(10),
        deleting: dice.percent(4),
        lacks_api: dice.percent(5),
    }
}

fn division(dice: &mut Dice) -> Division {
    match dice.below(8) {
        0 | 1 => Division::Duplicated,
        2 => Division::Static(Vec::new()),
        3 => Division::Static(NAMES.iter().map(|name| ((*name).to_owned(), dice.number(0, 3))).collect()),
        4 | 5 => Division::Dynamic,
        _ => Division::Aggregated,
    }
}

fn spread(dice: &mut Dice) -> Vec<Spread> {
    let mut fields = vec![By::Cluster, By::Region, By::Zone, By::Provider, By::Tier];
    let count = dice.of(&[0, 0, 1, 1, 1, 2, 2, 3, 4]);
    let mut spread = Vec::new();
    for _ in 0..count {
        let by = fields.remove(dice.below(fields.len()));
        let min = dice.number(1, 3);
        let max = if dice.percent(30) { 0 } else { min + dice.of(&[0, 0, 1, 2]) };
        spread.push(Spread { by, min, max, anyway: false });
    }
    spread
}

fn group(dice: &mut Dice) -> Group {
    let overflow = (0..dice.of(&[0, 0, 0, 1, 2])).map(|_| dice.some_names()).collect();
    Group { names: dice.some_names(), overflow }
}

fn targets(dice: &mut Dice, case: &mut Case) {
    let whole = dice.number(1, 6);
    for name in NAMES {
        if !dice.percent(40) {
            continue;
        }
        let held = match case.kind {
            Kind::Object => 0,
            Kind::Set => dice.number(2, 5),
            Kind::Replicas if case.replicas == 0 => dice.number(0, 2),
            Kind::Replicas if case.division == Division::Duplicated => whole,
            Kind::Replicas => dice.number(1, 3),
        };
        case.targets.push((name.to_owned(), held));
    }
    // A set that must be whole has at most one target.
    if case.is_one_set(case.observed) {
        case.targets.truncate(1);
    }
}
