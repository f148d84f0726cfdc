//! `metadata.managedFields`: the managers of an object, and the fields that each of them set (AP3,
//! AP10-AP12).
//!
//! Sets stay in their wire format until they have to change: most writes change few fields, and an
//! object can have a dozen managers.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{FieldSet, Malformed};
use crate::Time;

/// Largest number of managers with operation `Update`. Beyond it the oldest entries are merged
/// (AP12).
const UPDATERS_MAX: usize = 10;
/// Longer lists are searched by a hash index.
const LOOKED_AT_MAX: usize = 16;
const ANCIENT: &str = "ancient-changes";
const MANAGER_CHARS_MAX: usize = 128;
const SUBRESOURCE_CHARS_MAX: usize = 256;

/// The operation of a manager: server-side apply, or any other write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Apply,
    Update,
}

/// A manager: the name of a writer and its operation. It identifies an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Manager {
    pub operation: Operation,
    pub name: String,
    pub subresource: String,
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub manager: Manager,
    api_version: String,
    /// `None` only in lists that a client wrote.
    pub time: Option<Time>,
    fields: Fields,
}

#[derive(Clone, Debug)]
enum Fields {
    Wire(Map<String, Value>),
    Set(FieldSet),
}

/// The managers of one object, in one API version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedFields {
    entries: Vec<Entry>,
}

impl ManagedFields {
    /// Parses the list. Entries of another API version are dropped, because their field names
    /// belong to another schema (AP22).
    pub fn decode(list: Vec<Value>, api_version: &str) -> Result<ManagedFields, Malformed> {
        let mut entries: Vec<Entry> = Vec::with_capacity(list.len());
        // A linear search is fastest for few managers. A client may send any number.
        let mut places: HashMap<Manager, usize> = HashMap::new();
        for item in list {
            let entry = Entry::decode(item)?;
            if entry.api_version != api_version {
                continue;
            }
            let known = match entries.len() <= LOOKED_AT_MAX {
                true => entries.iter().position(|known| known.manager == entry.manager),
                false => {
                    let unknown = entries.iter().enumerate().skip(places.len());
                    places.extend(unknown.map(|(place, entry)| (entry.manager.clone(), place)));
                    places.get(&entry.manager).copied()
                }
            };
            match known {
                Some(place) => entries[place].take(entry)?,
                None => entries.push(entry),
            }
        }
        Ok(ManagedFields { entries })
    }

    /// Parses a list that a client wrote: like `decode`, but every set is parsed and brought to its
    /// canonical form.
    pub fn decode_strictly(list: Vec<Value>, api_version: &str) -> Result<ManagedFields, Malformed> {
        let mut managed = ManagedFields::decode(list, api_version)?;
        for entry in &mut managed.entries {
            entry.fields = Fields::Set(entry.fields()?);
        }
        managed.entries.retain(|entry| !entry.is_empty());
        Ok(managed)
    }

    /// Serializes the list in its canonical order. Returns `None` if there is no manager.
    pub fn encode(mut self) -> Option<Value> {
        self.entries.retain(|entry| !entry.is_empty());
        self.cap();
        self.entries.sort_by(|a, b| a.rank().cmp(&b.rank()));
        (!self.entries.is_empty()).then(|| self.entries.into_iter().map(Entry::encode).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entry of this manager.
    pub fn find(&self, manager: &Manager) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.manager == *manager)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Sets the fields of a manager. An empty set removes its entry.
    pub fn set(&mut self, manager: &Manager, api_version: &str, fields: FieldSet, time: Time) {
        self.entries.retain(|entry| entry.manager != *manager);
        if !fields.is_empty() {
            let (manager, api_version) = (manager.clone(), api_version.to_owned());
            self.entries.push(Entry { manager, api_version, time: Some(time), fields: Fields::Set(fields) });
        }
    }

    /// Updates the time of a manager's entry if the manager already owns all `written` fields and
    /// no `removed` one. Otherwise returns false, and the caller must compute the new entry.
    pub fn renew(&mut self, manager: &Manager, written: &FieldSet, removed: &FieldSet, time: Time) -> bool {
        let known = self.entries.iter_mut().find(|entry| entry.manager == *manager);
        let Some(Entry { fields: Fields::Wire(wire), time: last, .. }) = known else { return false };
        let is_known = written.is_within(wire) && !removed.meets(wire);
        if is_known {
            *last = Some(time);
        }
        is_known
    }

    /// Removes these fields from all other managers.
    pub fn take_from_others(&mut self, manager: &Manager, taken: &FieldSet) -> Result<(), Malformed> {
        for entry in self.entries.iter_mut().filter(|entry| entry.manager != *manager) {
            entry.lose(taken)?;
        }
        self.entries.retain(|entry| !entry.is_empty());
        Ok(())
    }

    /// Returns whether the lists are equal apart from the times of the entries.
    pub fn differs_only_in_times(&self, other: &ManagedFields) -> bool {
        let timeless = |managed: &ManagedFields| {
            let mut entries = managed.entries.clone();
            entries.iter_mut().for_each(|entry| entry.time = None);
            entries.sort_by(|a, b| a.rank().cmp(&b.rank()));
            entries
        };
        self.entries.len() == other.entries.len() && timeless(self) == timeless(other)
    }

    /// Merges the oldest `Update` entries until at most `UPDATERS_MAX` are left (AP12).
    fn cap(&mut self) {
        let is_updater = |entry: &Entry| entry.manager.operation == Operation::Update;
        let updaters = self.entries.iter().filter(|entry| is_updater(entry)).count();
        if updaters <= UPDATERS_MAX {
            return;
        }
        self.entries.sort_by(|a, b| a.rank().cmp(&b.rank()));
        let first = self.entries.iter().position(is_updater).unwrap_or_default();
        // One more entry is drained, because the merged entry is added.
        let oldest: Vec<Entry> = self.entries.drain(first..first + updaters - UPDATERS_MAX + 1).collect();
        let ancient = self.entries.iter().enumerate().filter(|(_, entry)| entry.manager.name == ANCIENT);
        let mut ancient: HashMap<Manager, usize> =
            ancient.map(|(place, entry)| (entry.manager.clone(), place)).collect();
        for mut old in oldest {
            old.manager.name = ANCIENT.to_owned();
            // Each subresource is merged separately, because other requests set its fields.
            let known = ancient.get(&old.manager).map(|place| &mut self.entries[*place]);
            if known.is_none_or(|known| known.take(old.clone()).is_err()) {
                ancient.entry(old.manager.clone()).or_insert(self.entries.len());
                self.entries.push(old);
            }
        }
    }
}

impl Entry {
    fn decode(mut item: Value) -> Result<Entry, Malformed> {
        let wire = item.get_mut("fieldsV1").map(Value::take);
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        let refuse = |why: &str| Malformed::new(why);
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(refuse("operation must be `Apply` or `Update`")),
        };
        if text("fieldsType") != "FieldsV1" {
            return Err(refuse("fieldsType must be `FieldsV1`"));
        }
        let (name, subresource) = (text("manager").to_owned(), text("subresource").to_owned());
        if name.chars().count() > MANAGER_CHARS_MAX || name.chars().any(char::is_control) {
            return Err(refuse("manager must be short and printable"));
        }
        if subresource.chars().count() > SUBRESOURCE_CHARS_MAX {
            return Err(refuse("subresource must be short"));
        }
        let wire = match wire {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(wire)) => wire,
            Some(_) => return Err(refuse("fieldsV1 must be an object")),
        };
        let time = match item.get("time") {
            None | Some(Value::Null) => None,
            Some(time) => {
                let time = time.as_str().and_then(|time| time.parse().ok());
                Some(time.ok_or_else(|| refuse("time must be a date-time"))?)
            }
        };
        let manager = Manager { operation, name, subresource };
        Ok(Entry { manager, api_version: text("apiVersion").to_owned(), time, fields: Fields::Wire(wire) })
    }

    fn encode(self) -> Value {
        let Entry { manager: Manager { operation, name, subresource }, api_version, time, fields } = self;
        let operation = match operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let wire = match fields {
            Fields::Wire(wire) => wire,
            Fields::Set(set) => set.to_fields_v1(),
        };
        let mut item = Map::new();
        item.insert("apiVersion".to_owned(), Value::from(api_version));
        item.insert("fieldsType".to_owned(), Value::from("FieldsV1"));
        item.insert("fieldsV1".to_owned(), Value::Object(wire));
        if !name.is_empty() {
            item.insert("manager".to_owned(), Value::from(name));
        }
        item.insert("operation".to_owned(), Value::from(operation));
        if !subresource.is_empty() {
            item.insert("subresource".to_owned(), Value::from(subresource));
        }
        if let Some(time) = time {
            item.insert("time".to_owned(), Value::from(time.to_string()));
        }
        Value::Object(item)
    }

    /// Returns the text of an `Update` entry, spelled as by `encode`. `fields` is the wire format
    /// of its set.
    pub fn text_of_update(name: &str, api_version: &str, fields: &str, time: Time) -> String {
        let quoted = |text: &str| serde_json::to_string(text).expect("a string always serializes");
        let manager = if name.is_empty() { String::new() } else { format!(r#","manager":{}"#, quoted(name)) };
        format!(
            r#"{{"apiVersion":{},"fieldsType":"FieldsV1","fieldsV1":{fields}{manager},"operation":"Update","time":"{time}"}}"#,
            quoted(api_version)
        )
    }

    /// Returns the fields, which are parsed at each call.
    pub fn fields(&self) -> Result<FieldSet, Malformed> {
        match &self.fields {
            Fields::Wire(wire) => FieldSet::from_fields_v1(wire),
            Fields::Set(set) => Ok(set.clone()),
        }
    }

    fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Wire(wire) => wire.is_empty(),
            Fields::Set(set) => set.is_empty(),
        }
    }

    fn lose(&mut self, taken: &FieldSet) -> Result<(), Malformed> {
        let is_met = match &self.fields {
            Fields::Wire(wire) => taken.meets(wire),
            Fields::Set(set) => !set.intersection(taken).is_empty(),
        };
        if is_met {
            self.fields = Fields::Set(self.fields()?.difference(taken));
        }
        Ok(())
    }

    /// Adds the fields of another entry of the same manager.
    fn take(&mut self, other: Entry) -> Result<(), Malformed> {
        let theirs = other.fields()?;
        match &mut self.fields {
            Fields::Set(mine) => mine.add(theirs),
            Fields::Wire(_) => {
                let mut mine = self.fields()?;
                mine.add(theirs);
                self.fields = Fields::Set(mine);
            }
        }
        self.time = self.time.max(other.time);
        Ok(())
    }

    /// Returns the sort key of the entry (AP11).
    fn rank(&self) -> (Operation, Option<Time>, &str, &str, &str) {
        let Manager { operation, name, subresource } = &self.manager;
        (*operation, self.time, name, &self.api_version, subresource)
    }
}

/// Compares the wire formats of two sets.
impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        let wire = |fields: &Fields| match fields {
            Fields::Wire(wire) => wire.clone(),
            Fields::Set(set) => set.to_fields_v1(),
        };
        match (self, other) {
            (Fields::Wire(one), Fields::Wire(two)) => one == two,
            (Fields::Set(one), Fields::Set(two)) => one == two,
            _ => wire(self) == wire(other),
        }
    }
}

impl Eq for Fields {}
