//! The decided configuration, and how it is made out of entries.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use crate::check;
use crate::database::{
    self, DATABASE_NAME_BYTES_MAX, Database, FALLBACK, USER_NAME_BYTES_MAX, is_console,
};
use crate::errors::{Error, Errors, Place, Problem, SettingError, nearest};
use crate::general::{Changeable, General, Status, catalogue, setting};
use crate::ini::{self, Entries, Entry, Section};
use crate::parameters::{Finding, fill};
use crate::peer::{self, Peer};
use crate::user::{self, User};
use crate::value::{BadValue, Value};

/// A whole configuration. Cheap to clone; never changed, only replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub general: Arc<General>,
    /// By the name that clients use; without `*`.
    pub databases: BTreeMap<String, Arc<Database>>,
    /// The entry `*`: for every name that has none of its own.
    pub fallback: Option<Arc<Database>>,
    pub users: BTreeMap<String, Arc<User>>,
    pub peers: BTreeMap<u16, Peer>,
}

/// A configuration and what its reader should be told about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    /// Known names that were set but have no effect yet, each as `file:line: name`.
    pub not_yet_in_effect: Vec<String>,
    /// What is allowed but hardly meant, each as `file:line: text`.
    pub warnings: Vec<String>,
    /// Settings whose new value waits for a restart; only a reload has any.
    pub needs_restart: Vec<&'static str>,
}

/// A row of `SHOW CONFIG`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigRow {
    pub key: &'static str,
    pub value: String,
    pub default: &'static str,
    pub changeable: Changeable,
}

impl Default for Config {
    /// Every setting at its default, and no database.
    fn default() -> Self {
        let general = Arc::new(General::default());
        Self {
            general,
            databases: BTreeMap::new(),
            fallback: None,
            users: BTreeMap::new(),
            peers: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Reads a file and its includes. Fails with everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Loaded, Errors> {
        Draft::new(path, None).decide(ini::load(path))
    }

    /// Reads a text as if it were the file `file_name`. Touches no file: `%include` is an error.
    pub fn parse(text: &str, file_name: &Path) -> Result<Loaded, Errors> {
        Draft::new(file_name, None).decide(ini::parse(text, file_name))
    }

    /// Reads a file for a running program: what only changes at start stays as it is in `self` and is named in [`Loaded::needs_restart`].
    pub fn reload(&self, path: &Path) -> Result<Loaded, Errors> {
        Draft::new(path, Some(&self.general)).decide(ini::load(path))
    }

    /// The database that a client means by `name`; through `*` if it has no entry of its own. The console is none.
    pub fn database(&self, name: &str) -> Option<Arc<Database>> {
        if is_console(name) {
            return None;
        }
        let own = self.databases.get(name).cloned();
        own.or_else(|| {
            self.fallback
                .as_deref()
                .map(|fallback| Arc::new(fallback.called(name)))
        })
    }

    /// The rows of `SHOW CONFIG`, in alphabetical order.
    pub fn show(&self) -> Vec<ConfigRow> {
        let row = |setting: &'static crate::general::Setting| ConfigRow {
            key: setting.name,
            value: setting.show(&self.general),
            default: setting.default,
            changeable: setting.changeable,
        };
        let mut rows: Vec<ConfigRow> = catalogue().iter().map(row).collect();
        rows.sort_by_key(|row| row.key);
        rows
    }

    /// This configuration with one setting changed, for the console's `SET`.
    pub fn with(&self, key: &str, value: &str) -> Result<Config, SettingError> {
        let Some(setting) = setting(key) else {
            let nearest = nearest(key, catalogue().iter().map(|setting| setting.name));
            return Err(SettingError::Unknown {
                name: key.to_owned(),
                nearest,
            });
        };
        if setting.changeable == Changeable::Boot {
            return Err(SettingError::BootOnly { name: setting.name });
        }
        let mut general = General::clone(&self.general);
        setting
            .set(&mut general, value)
            .map_err(|bad| SettingError::BadValue {
                name: setting.name,
                bad,
            })?;
        match check::refusals(&general).into_iter().next() {
            Some(refusal) => Err(SettingError::Refused(refusal.problem)),
            None => Ok(Config {
                general: Arc::new(general),
                ..self.clone()
            }),
        }
    }

    /// The settings that differ and only change at start.
    pub fn changed_boot_only(&self, other: &Config) -> Vec<&'static str> {
        changed_boot_only(&self.general, &other.general)
    }
}

fn changed_boot_only(old: &General, new: &General) -> Vec<&'static str> {
    let changed = catalogue().iter().filter(|setting| {
        setting.changeable == Changeable::Boot
            && setting.status != Status::Unneeded
            && setting.show(old) != setting.show(new)
    });
    changed.map(|setting| setting.name).collect()
}

/// A configuration in the making.
struct Draft<'a> {
    config: Config,
    general: General,
    /// The settings of the running program, when this is a reload.
    running: Option<&'a General>,
    file: Place,
    /// Where each setting was set.
    places: HashMap<&'static str, Place>,
    /// Where each database, user and peer was set.
    entries: HashMap<String, Place>,
    not_yet_in_effect: Vec<String>,
    errors: Vec<Error>,
}

impl<'a> Draft<'a> {
    fn new(path: &Path, running: Option<&'a General>) -> Self {
        let general = General {
            conffile: Some(path.to_owned()),
            ..General::default()
        };
        Self {
            config: Config::default(),
            general,
            running,
            file: Place {
                file: path.into(),
                line: None,
            },
            places: HashMap::new(),
            entries: HashMap::new(),
            not_yet_in_effect: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// The settings come first: what databases take over from them may stand below.
    fn decide(mut self, read: Entries) -> Result<Loaded, Errors> {
        self.errors = read.errors;
        let (settings, others): (Vec<Entry>, Vec<Entry>) = read
            .entries
            .into_iter()
            .partition(|entry| entry.section == Section::Pgbouncer);
        settings.iter().for_each(|entry| self.setting(entry));
        let needs_restart = self.keep_boot_only();
        self.refuse();
        others.iter().for_each(|entry| self.other(entry));
        self.finish(needs_restart)
    }

    fn finish(mut self, needs_restart: Vec<&'static str>) -> Result<Loaded, Errors> {
        if !self.errors.is_empty() {
            self.errors.sort_by(|a, b| a.place.cmp(&b.place));
            return Err(Errors(self.errors));
        }
        self.config.general = Arc::new(self.general);
        let place_of = |name: &str| {
            self.entries
                .get(name)
                .or(self.places.get(name))
                .unwrap_or(&self.file)
        };
        let warnings = check::warnings(&self.config);
        let warnings = warnings
            .into_iter()
            .map(|warning| format!("{}: {}", place_of(&warning.about), warning.text));
        let warnings = warnings.collect();
        Ok(Loaded {
            config: self.config,
            not_yet_in_effect: self.not_yet_in_effect,
            warnings,
            needs_restart,
        })
    }

    fn setting(&mut self, entry: &Entry) {
        let Some(setting) = setting(&entry.key) else {
            let nearest = nearest(&entry.key, catalogue().iter().map(|setting| setting.name));
            return self.report(
                entry,
                (
                    Problem::UnknownSetting {
                        name: entry.key.clone(),
                    },
                    nearest,
                ),
            );
        };
        if let Some(first) = self.places.get(setting.name) {
            let problem = Problem::Duplicate {
                name: setting.name.to_owned(),
                first: first.clone(),
            };
            return self.report(entry, (problem, None));
        }
        self.places.insert(setting.name, entry.place.clone());
        if let Err(bad) = setting.set(&mut self.general, &entry.value) {
            return self.report(
                entry,
                (
                    Problem::BadValue {
                        name: setting.name.to_owned(),
                        bad,
                    },
                    None,
                ),
            );
        }
        if setting.status == Status::NotYet && setting.differs_from_default(&self.general) {
            self.not_yet_in_effect
                .push(format!("{}: {}", entry.place, setting.name));
        }
    }

    /// In a reload, puts the running values of what only changes at start into place. Gives the names that were to change.
    fn keep_boot_only(&mut self) -> Vec<&'static str> {
        let Some(running) = self.running else {
            return Vec::new();
        };
        let changed = changed_boot_only(running, &self.general);
        for setting in changed.iter().filter_map(|name| setting(name)) {
            // What is shown can be set again, so this cannot fail.
            let _ = setting.set(&mut self.general, &setting.show(running));
        }
        changed
    }

    fn refuse(&mut self) {
        for refusal in check::refusals(&self.general) {
            let place = self
                .places
                .get(refusal.setting)
                .unwrap_or(&self.file)
                .clone();
            self.errors.push(Error {
                place,
                problem: refusal.problem,
                nearest: None,
            });
        }
    }

    fn other(&mut self, entry: &Entry) {
        let name = entry_name(entry);
        if let Some(first) = self.entries.get(&name) {
            let problem = Problem::Duplicate {
                name,
                first: first.clone(),
            };
            return self.report(entry, (problem, None));
        }
        self.entries.insert(name.clone(), entry.place.clone());
        let findings = match entry.section {
            Section::Pgbouncer => return,
            Section::Databases => self.database(entry, name),
            Section::Users => self.user(entry, name),
            Section::Peers => self.peer(entry, name),
        };
        findings
            .into_iter()
            .for_each(|finding| self.report(entry, finding));
    }

    fn database(&mut self, entry: &Entry, name: String) -> Vec<Finding> {
        if is_console(&entry.key) {
            return vec![(
                Problem::Reserved {
                    name: entry.key.clone(),
                },
                None,
            )];
        }
        if let Err(bad) = database::name_of(&entry.key, DATABASE_NAME_BYTES_MAX) {
            return vec![(Problem::BadName { entry: name, bad }, None)];
        }
        let database = match database::parse(
            &entry.key,
            &entry.value,
            self.general.unix_socket_dir.as_ref(),
        ) {
            Ok(database) => Arc::new(database),
            Err(findings) => return findings,
        };
        match entry.key.as_str() {
            FALLBACK => self.config.fallback = Some(database),
            key => drop(self.config.databases.insert(key.to_owned(), database)),
        }
        Vec::new()
    }

    fn user(&mut self, entry: &Entry, name: String) -> Vec<Finding> {
        if let Err(bad) = database::name_of(&entry.key, USER_NAME_BYTES_MAX) {
            return vec![(Problem::BadName { entry: name, bad }, None)];
        }
        let mut user = User {
            name: entry.key.clone(),
            ..User::default()
        };
        let findings = fill(user::PARAMETERS, &entry.value, &name, &mut user);
        self.config.users.insert(entry.key.clone(), Arc::new(user));
        findings
    }

    fn peer(&mut self, entry: &Entry, name: String) -> Vec<Finding> {
        let Some(id) = u16::parse(&entry.key).filter(|id| (1..=16383).contains(id)) else {
            let bad = BadValue::new("a peer's number from 1 to 16383", &entry.key);
            return vec![(Problem::BadName { entry: name, bad }, None)];
        };
        let mut peer = Peer::default();
        let mut findings = fill(peer::PARAMETERS, &entry.value, &name, &mut peer);
        if peer.host.is_empty() && findings.is_empty() {
            findings.push((
                Problem::BadEntry {
                    entry: name.clone(),
                    what: "host is missing",
                },
                None,
            ));
        }
        self.config.peers.insert(id, peer);
        self.not_yet_in_effect
            .push(format!("{}: {name}", entry.place));
        findings
    }

    fn report(&mut self, entry: &Entry, (problem, nearest): Finding) {
        let nearest = nearest.map(str::to_owned);
        self.errors.push(Error {
            place: entry.place.clone(),
            problem,
            nearest,
        });
    }
}

/// How messages call an entry.
fn entry_name(entry: &Entry) -> String {
    let kind = match entry.section {
        Section::Pgbouncer => "setting",
        Section::Databases => "database",
        Section::Users => "user",
        Section::Peers => "peer",
    };
    format!("{kind} \"{}\"", entry.key)
}
