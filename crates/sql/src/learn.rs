//! What the catalogue of one database says: which functions, relations, types and operators touch session state.
//!
//! Owns the [queries](QUERIES) and what follows from their rows. Who uses whom is PostgreSQL's own record of dependencies, with what it leaves out:
//! functions whose body is a text are found by the names in it. Objects of PostgreSQL itself are not in the rows; the built-in words
//! stand for them. The answer is a superset: a name means every object of that name.
//!
//! Not seen: what functions in C do (unless they are known by name), and names that code puts together and executes, which makes it opaque.

mod catalog;
mod queries;

pub use catalog::{BadRow, Catalog, Dependency, Function, Node, Object, Reach};
pub use queries::{BEGIN, END, FINGERPRINT, Part, QUERIES, Query, SETTINGS};

use crate::unnamed_settings::body_sets_unnamed;
use crate::{LearntNames, Scanner, Strings, Suspicion, setting_names};
use aho_corasick::BuildError;
use std::collections::HashMap;

/// Custom parameters that are kept for one database. With more, [`LearntNames::settings_are_complete`] says no.
const SETTINGS_MAX: usize = 1024;

/// Draws the conclusions.
///
/// # Errors
/// If the names are too many for an automaton.
pub fn learn(catalog: &Catalog) -> Result<LearntNames, BuildError> {
    let built_in = Scanner::new(&LearntNames::default())?;
    let mut graph = Graph::new(catalog, &built_in);
    let mut learnt = LearntNames::default();
    // Each round finds who names, in a text, what was found before: at most as many as functions call one another.
    loop {
        graph.propagate();
        let found = graph.learnt(catalog);
        if found == learnt {
            break;
        }
        learnt = found;
        let scanner = Scanner::new(&learnt)?;
        for function in &catalog.functions {
            graph.suspect(function.node(), scanner.names(&function.body));
        }
    }
    add_settings(&mut learnt, catalog, &graph);
    Ok(learnt)
}

/// Who uses whom, and what each is suspected of.
struct Graph {
    suspicions: HashMap<Node, Suspicion>,
    /// By what is used: its users.
    users: HashMap<Node, Vec<Node>>,
    /// Whose suspicion its users have not been told of yet.
    pending: Vec<Node>,
}

impl Graph {
    fn new(catalog: &Catalog, built_in: &Scanner) -> Self {
        let mut graph = Self {
            suspicions: HashMap::new(),
            users: HashMap::new(),
            pending: Vec::new(),
        };
        for dependency in &catalog.dependencies {
            let users = graph.users.entry(dependency.used).or_default();
            users.push(dependency.user);
        }
        for function in &catalog.functions {
            let suspicion = built_in.body(&function.body, &function.language);
            graph.suspect(function.node(), suspicion);
            if suspicion.contains(Suspicion::SETTINGS) && body_sets_unnamed(&function.body) {
                graph.suspect(function.node(), Suspicion::UNNAMED);
            }
        }
        for object in &catalog.objects {
            // The text is a definition; what it defines defines nothing.
            let suspicion = built_in.body(&object.text, "sql") - Suspicion::CATALOG_CHANGE;
            graph.suspect(object.node, suspicion);
        }
        graph
    }

    fn suspicion(&self, node: Node) -> Suspicion {
        self.suspicions.get(&node).copied().unwrap_or_default()
    }

    fn suspect(&mut self, node: Node, suspicion: Suspicion) {
        let known = self.suspicions.entry(node).or_default();
        if !known.contains(suspicion) {
            *known |= suspicion;
            self.pending.push(node);
        }
    }

    fn propagate(&mut self) {
        while let Some(node) = self.pending.pop() {
            let suspicion = self.suspicion(node);
            for user in self.users.get(&node).cloned().unwrap_or_default() {
                self.suspect(user, suspicion);
            }
        }
    }

    fn learnt(&self, catalog: &Catalog) -> LearntNames {
        let mut learnt = LearntNames::default();
        for function in &catalog.functions {
            learnt.insert(&function.name, self.suspicion(function.node()));
        }
        for object in &catalog.objects {
            let suspicion = self.suspicion(object.node);
            match object.reach {
                Reach::Name => learnt.insert(&object.name, suspicion),
                Reach::Definition => learnt.on_definition |= suspicion,
                Reach::Everywhere => learnt.everywhere |= suspicion,
                Reach::Owner => {}
            }
        }
        learnt
    }
}

/// The names are looked for in whoever may set something, also through others: a helper may be given the name.
fn add_settings(learnt: &mut LearntNames, catalog: &Catalog, graph: &Graph) {
    let setters = catalog.functions.iter().filter(|function| {
        graph
            .suspicion(function.node())
            .contains(Suspicion::SETTINGS)
    });
    let functions = setters.map(|function| &function.body);
    let objects = catalog
        .objects
        .iter()
        .filter(|object| graph.suspicion(object.node).contains(Suspicion::SETTINGS))
        .map(|object| &object.text);
    for text in functions.chain(objects) {
        let names = setting_names(text, Strings::default());
        learnt.note_settings(names.is_complete());
        for name in names {
            let has_place = learnt.settings.len() < SETTINGS_MAX;
            if has_place {
                learnt.settings.insert(name);
            } else if !learnt.settings.contains(&name) {
                learnt.note_settings(false);
            }
        }
    }
}

#[cfg(test)]
mod tests;
