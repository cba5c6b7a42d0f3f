//! The rows of the catalogue's queries.

use super::queries::Part;
use std::fmt;

/// What the queries answered.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    pub functions: Vec<Function>,
    pub objects: Vec<Object>,
    pub dependencies: Vec<Dependency>,
}

/// A function, procedure or aggregate that is not PostgreSQL's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub oid: u32,
    pub schema: Vec<u8>,
    pub name: Vec<u8>,
    /// As in `pg_language`.
    pub language: String,
    /// `prokind`: f, p, a or w.
    pub kind: u8,
    /// `proconfig`: what is set while it runs, and set back when it ends.
    pub settings: Vec<u8>,
    /// `prosrc`, or the body of SQL as PostgreSQL writes it, and the defaults of the arguments. For C and internal functions the symbol.
    pub body: Vec<u8>,
}

impl Function {
    /// `pg_proc`'s own oid.
    pub const CLASS: u32 = 1255;

    pub fn node(&self) -> Node {
        Node {
            class: Self::CLASS,
            oid: self.oid,
        }
    }
}

/// Anything else that has a name in texts, or code in its definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub node: Node,
    pub reach: Reach,
    pub name: Vec<u8>,
    /// Expressions in its definition. Calls of PostgreSQL's own functions are only found here.
    pub text: Vec<u8>,
}

/// How a statement comes to use an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It names it.
    Name,
    /// It uses what the object belongs to: a trigger's relation, a constraint's domain.
    Owner,
    /// It is a definition: event triggers.
    Definition,
    /// In no way that shows: casts between built-in types.
    Everywhere,
}

/// An object as `pg_depend` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// The oid of the catalogue that it is in.
    pub class: u32,
    pub oid: u32,
}

/// Who uses `user` may by that use `used`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency {
    pub user: Node,
    pub used: Node,
}

/// A row that is not as its query makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadRow(pub Part);

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a row of {:?} that is not as the query makes it", self.0)
    }
}

impl std::error::Error for BadRow {}

impl Catalog {
    /// Takes one row, its columns as text; none is NULL.
    ///
    /// # Errors
    /// If it is not as the query makes it.
    pub fn add(&mut self, part: Part, row: &[&[u8]]) -> Result<(), BadRow> {
        let added = match part {
            Part::Functions => function(row).map(|it| self.functions.push(it)),
            Part::Objects => object(row).map(|it| self.objects.push(it)),
            Part::Dependencies => dependency(row).map(|it| self.dependencies.push(it)),
        };
        added.ok_or(BadRow(part))
    }
}

fn function(row: &[&[u8]]) -> Option<Function> {
    let [oid, schema, name, language, kind, settings, body] = row else {
        return None;
    };
    Some(Function {
        oid: number(oid)?,
        schema: schema.to_vec(),
        name: name.to_vec(),
        language: String::from_utf8_lossy(language).into_owned(),
        kind: *kind.first()?,
        settings: settings.to_vec(),
        body: body.to_vec(),
    })
}

fn object(row: &[&[u8]]) -> Option<Object> {
    let [class, oid, reach, name, text] = row else {
        return None;
    };
    let reach = match *reach {
        b"name" => Reach::Name,
        b"owner" => Reach::Owner,
        b"definition" => Reach::Definition,
        b"everywhere" => Reach::Everywhere,
        _ => return None,
    };
    Some(Object {
        node: node(class, oid)?,
        reach,
        name: name.to_vec(),
        text: text.to_vec(),
    })
}

fn dependency(row: &[&[u8]]) -> Option<Dependency> {
    let [class, oid, used_class, used_oid] = row else {
        return None;
    };
    Some(Dependency {
        user: node(class, oid)?,
        used: node(used_class, used_oid)?,
    })
}

fn node(class: &[u8], oid: &[u8]) -> Option<Node> {
    Some(Node {
        class: number(class)?,
        oid: number(oid)?,
    })
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
