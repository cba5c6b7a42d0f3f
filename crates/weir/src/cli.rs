//! The command line: PgBouncer's flags, and the commands `check`, `demo`, `lab` and `advise` that it does not have.

use crate::start::{self, Mode, Options};
use anyhow::Context;
use clap::{ArgAction, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A PostgreSQL connection pooler that takes PgBouncer's place: many clients on few server connections.
#[derive(Parser, Debug)]
#[command(name = "weir", version, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(
    override_usage = "weir [OPTIONS] CONFIG.ini\n       weir check CONFIG.ini\n       weir check --against DSN [--watch TIME] [--log FILE]\n       weir demo [--seconds N]\n       weir lab [EXPERIMENT]... [--target NAME=DSN]... [--quick | --full] [--out DIR]\n       weir advise DSN [--watch TIME] [--apply-to CONFIG.ini] [--json]"
)]
struct Arguments {
    /// The configuration file (write ./check, ./demo, ./lab or ./advise for a file of that name)
    #[arg(value_name = "CONFIG.ini", required = true)]
    config: Option<PathBuf>,
    /// Run in the background; needs a pidfile and a logfile or syslog
    #[arg(short, long)]
    daemon: bool,
    /// Become this user of the operating system; needed when started as root
    #[arg(short, long)]
    user: Option<String>,
    /// Log more; may be repeated
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Do not log to stderr
    #[arg(short, long)]
    quiet: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Say what is wrong with a configuration file, without starting; or what a database's statements would cost in a transaction pool
    Check(Check),
    /// Show pooling at work: a PostgreSQL in a temporary folder, Weir in front of it, a thousand clients
    #[cfg(feature = "lab")]
    Demo {
        /// End after that many seconds; otherwise stay up until Ctrl-C
        #[arg(long, value_name = "N")]
        seconds: Option<u64>,
    },
    /// Repeat the published experiments about connections on this machine: PostgreSQL, Weir, and other poolers side by side
    #[cfg(feature = "lab")]
    Lab(Lab),
    /// Watch a server, directly or through its pooler, and say which pool sizes, limits and time-outs follow; it changes nothing there
    #[cfg(feature = "lab")]
    Advise(Advise),
}

#[derive(clap::Args, Debug)]
struct Check {
    /// The configuration file
    #[arg(value_name = "CONFIG.ini")]
    #[cfg_attr(feature = "lab", arg(required_unless_present_any = ["against", "log"]))]
    #[cfg_attr(not(feature = "lab"), arg(required = true))]
    config: Option<PathBuf>,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    statements: Statements,
}

#[cfg(feature = "lab")]
#[derive(clap::Args, Debug)]
struct Statements {
    /// A live database, in whatever pool mode: which statements of its applications would cost something in a transaction pool?
    #[arg(long, value_name = "DSN", conflicts_with = "config")]
    against: Option<String>,
    /// How long to watch its sessions, as in 30s, 10m or 1h
    #[arg(long, value_name = "TIME", default_value = "30s", requires = "against")]
    watch: lab::advise::Length,
    /// The same of a log of PostgreSQL (.csv, .json or plain), or of a file of SQL
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    log: Vec<PathBuf>,
}

#[cfg(feature = "lab")]
#[derive(clap::Args, Debug)]
struct Advise {
    /// Where the server or its pooler is, as in postgresql://user@host/database
    #[arg(value_name = "DSN")]
    dsn: String,
    /// How long to watch, as in 30s, 10m or 1h; best in the busiest hour
    #[arg(long, value_name = "TIME", default_value = "30s")]
    watch: lab::advise::Length,
    /// Merge the advice into this file; the old one is kept as CONFIG.ini.bak
    #[arg(long, value_name = "CONFIG.ini")]
    apply_to: Option<PathBuf>,
    /// The cores of the server's machine, if it is another one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,
    /// The memory of the server's machine, as in 64GB, if it is another one
    #[arg(long, value_name = "SIZE")]
    memory: Option<lab::advise::Size>,
    /// Everything that was seen and concluded, as JSON
    #[arg(long)]
    json: bool,
}

#[cfg(feature = "lab")]
#[derive(clap::Args, Debug)]
struct Lab {
    /// idle, think, bloat, memory, connect, poolsize, overhead, readers-writers, storm; all if none is named
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// What to compare, PostgreSQL itself first; without it a PostgreSQL, Weir and an installed PgBouncer of the lab's own
    #[arg(long = "target", value_name = "NAME=DSN")]
    targets: Vec<lab::site::Target>,
    #[command(flatten)]
    depth: Depth,
    /// Where the results go; otherwise a new folder weir-lab-DATE-TIME
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[cfg(feature = "lab")]
#[derive(clap::Args, Debug)]
#[group(multiple = false)]
struct Depth {
    /// Small sizes: everything within ten minutes (this is the default)
    #[arg(long)]
    quick: bool,
    /// The published sizes, as far as this machine carries them: hours
    #[arg(long)]
    full: bool,
    /// Only try every experiment out
    #[arg(long, hide = true)]
    smallest: bool,
}

/// Runs what the command line asks for. Errors go to stderr, and the exit status tells of them.
pub fn main() -> ExitCode {
    let outcome = match Arguments::parse() {
        Arguments {
            command: Some(Command::Check(options)),
            ..
        } => check(options),
        #[cfg(feature = "lab")]
        Arguments {
            command: Some(Command::Demo { seconds }),
            ..
        } => demo(seconds),
        #[cfg(feature = "lab")]
        Arguments {
            command: Some(Command::Lab(options)),
            ..
        } => experiments(options),
        #[cfg(feature = "lab")]
        Arguments {
            command: Some(Command::Advise(options)),
            ..
        } => advise(options),
        arguments => options(arguments).and_then(|options| start::run(&options)),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("weir: {error:#}");
        ExitCode::FAILURE
    })
}

fn options(arguments: Arguments) -> anyhow::Result<Options> {
    let Arguments {
        config,
        daemon,
        user,
        verbose,
        quiet,
        command: _,
    } = arguments;
    Ok(Options {
        config: config.context("a configuration file is missing")?,
        mode: if daemon {
            Mode::Background
        } else {
            Mode::Foreground { quiet }
        },
        user,
        verbose: u32::from(verbose),
    })
}

fn check(options: Check) -> anyhow::Result<ExitCode> {
    if let Some(config) = &options.config {
        return check_file(config);
    }
    #[cfg(feature = "lab")]
    lab::audit::run(&lab::audit::AuditOptions {
        dsn: options.statements.against,
        watch: options.statements.watch,
        logs: options.statements.log,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads everything that a start would read.
fn check_file(path: &Path) -> anyhow::Result<ExitCode> {
    let setup = match start::Setup::load(path) {
        Ok(setup) => setup,
        Err(errors) => {
            eprintln!("{errors:#}");
            return Ok(ExitCode::FAILURE);
        }
    };
    setup
        .loaded
        .warnings
        .iter()
        .for_each(|warning| println!("warning: {warning}"));
    setup
        .loaded
        .not_yet_in_effect
        .iter()
        .for_each(|setting| println!("not yet in effect: {setting}"));
    println!("{}: OK", path.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "lab")]
fn demo(seconds: Option<u64>) -> anyhow::Result<ExitCode> {
    lab::demo::run(&lab::demo::DemoOptions {
        seconds,
        weir_program: this_program()?,
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "lab")]
fn experiments(options: Lab) -> anyhow::Result<ExitCode> {
    lab::command::run(&lab::command::LabOptions {
        experiments: options.experiments,
        targets: options.targets,
        depth: options.depth.chosen(),
        out: options.out,
        weir_program: this_program()?,
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "lab")]
fn advise(options: Advise) -> anyhow::Result<ExitCode> {
    use lab::advise::{AdviseOptions, Output, run};
    let options = AdviseOptions {
        dsn: options.dsn,
        watch: options.watch,
        cores: options.cores.map(|cores| cores as usize),
        memory: options.memory,
        apply_to: options.apply_to,
        output: if options.json {
            Output::Json
        } else {
            Output::Text
        },
    };
    let check = |path: &Path| match start::Setup::load(path) {
        Ok(_) => Ok(()),
        Err(errors) => Err(errors.to_string()),
    };
    run(&options, &check)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "lab")]
impl Depth {
    fn chosen(&self) -> lab::experiment::Depth {
        match self {
            Depth { full: true, .. } => lab::experiment::Depth::Full,
            Depth { smallest: true, .. } => lab::experiment::Depth::Smallest,
            Depth { .. } => lab::experiment::Depth::Quick,
        }
    }
}

#[cfg(feature = "lab")]
fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("this program's own file cannot be found")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(std::iter::once("weir").chain(line.split_whitespace()))
    }

    #[test]
    fn the_definition_is_sound() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn pgbouncers_flags() {
        let arguments =
            parse("-d -u postgres -v -v -q /etc/pgbouncer/pgbouncer.ini").expect("valid");
        assert_eq!(
            (arguments.daemon, arguments.quiet, arguments.verbose),
            (true, true, 2)
        );
        assert_eq!(arguments.user.as_deref(), Some("postgres"));
        assert_eq!(
            arguments.config,
            Some(PathBuf::from("/etc/pgbouncer/pgbouncer.ini"))
        );
        assert!(parse("--daemon --user=a --verbose --quiet x.ini").is_ok());
    }

    #[cfg(feature = "lab")]
    #[test]
    fn experiments_and_targets() {
        let line = "lab idle storm --full --out /tmp/x --target pg=host=127.0.0.1\u{a0}user=a --target w=postgresql://a@127.0.0.1:6432/a";
        let line: Vec<String> = line
            .split(' ')
            .map(|word| word.replace('\u{a0}', " "))
            .collect();
        let arguments = Arguments::try_parse_from(std::iter::once("weir".to_owned()).chain(line));
        let Some(Command::Lab(lab)) = arguments.expect("valid").command else {
            panic!("it is the command lab")
        };
        assert_eq!(lab.experiments, ["idle", "storm"]);
        assert_eq!(lab.depth.chosen(), ::lab::experiment::Depth::Full);
        assert_eq!(lab.targets.len(), 2);
        assert!(parse("lab --quick --full").is_err());
        assert!(parse("lab --target nonsense").is_err());
        assert!(parse("lab").is_ok());
    }

    #[cfg(feature = "lab")]
    #[test]
    fn advice_needs_a_server_and_a_time_with_a_unit() {
        let line = "advise postgresql://a@h/d --watch 10m --apply-to x.ini --cores 8 --memory 64GB";
        let Some(Command::Advise(advise)) = parse(line).expect("valid").command else {
            panic!("it is the command advise")
        };
        assert_eq!(advise.watch.0.as_secs(), 600);
        assert_eq!(advise.apply_to, Some(PathBuf::from("x.ini")));
        for wrong in [
            "advise",
            "advise a b",
            "advise a --watch soon",
            "advise a --cores 0",
            "advise a --memory much",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(feature = "lab")]
    #[test]
    fn a_check_is_of_a_file_or_of_statements() {
        for valid in [
            "check x.ini",
            "check --against postgresql://a@h/d --watch 10m",
            "check --log a.csv --log b.sql",
            "check --against postgresql://a@h/d --log a.csv",
        ] {
            assert!(parse(valid).is_ok(), "{valid}");
        }
        for wrong in [
            "check",
            "check x.ini --against d",
            "check x.ini --log a.csv",
            "check --log a.csv --watch 1m",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_command_is_no_file_unless_it_has_a_path() {
        assert!(matches!(
            parse("check x.ini").expect("valid").command,
            Some(Command::Check(_))
        ));
        let file = parse("./check").expect("valid");
        assert!(file.command.is_none() && file.config == Some(PathBuf::from("./check")));
        for wrong in [
            "",
            "check",
            "x.ini y.ini",
            "-d",
            "x.ini check y.ini",
            "--reboot x.ini",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
