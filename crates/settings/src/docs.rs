//! The manual's page about the configuration, written from the declarations themselves.

use std::fmt::Write;

use crate::general::{Changeable, Setting, Status, catalogue};
use crate::parameters::Parameter;
use crate::{database, peer, user};

/// `docs/configuration.md`.
pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    let mut group = "";
    for setting in catalogue() {
        if setting.group != group {
            group = setting.group;
            page.push_str(&format!("\n### {group}\n"));
        }
        page.push_str(&setting_text(setting));
    }
    page.push_str(DATABASES);
    page.push_str(&parameters_text(database::PARAMETERS));
    page.push_str(USERS);
    page.push_str(&parameters_text(user::PARAMETERS));
    page.push_str(PEERS);
    page.push_str(&parameters_text(peer::PARAMETERS));
    page
}

fn setting_text(setting: &Setting) -> String {
    let text: Vec<&str> = setting
        .doc
        .iter()
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let default = match setting.default {
        "" => "not set".to_owned(),
        default => format!("`{default}`"),
    };
    let changeable = match setting.changeable {
        Changeable::Boot => "changes at start only",
        Changeable::Reload => "changes by `RELOAD` and `SET`",
    };
    let status = match setting.status {
        Status::InEffect => "",
        Status::NotYet => "; **not yet in effect**",
        Status::Unneeded => "; accepted, without effect in Weir",
    };
    let expected = setting.expected;
    format!(
        "\n#### `{}`\n\n{}\n\nDefault: {default}. Takes {expected}; {changeable}{status}.\n",
        setting.name,
        text.join("\n")
    )
}

fn parameters_text<T>(parameters: &[Parameter<T>]) -> String {
    parameters.iter().fold(
        String::from("\n| key | meaning |\n| --- | --- |\n"),
        |mut table, parameter| {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "| `{}` | {} |", parameter.name, parameter.doc);
            table
        },
    )
}

const INTRODUCTION: &str = "# Configuration\n";
const DATABASES: &str = "\n## `[databases]`\n";
const USERS: &str = "\n## `[users]`\n";
const PEERS: &str = "\n## `[peers]`\n";
