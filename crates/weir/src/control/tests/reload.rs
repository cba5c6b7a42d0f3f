//! RELOAD and SET: whole, or not at all.

use super::Plane;
use crate::control::reload::{reload, set};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const INI: &str = "listen_port = 6543\ndefault_pool_size = 2\n[databases]\none = host=127.0.0.1 port=5433\ntwo = host=127.0.0.1\n";

#[tokio::test]
async fn a_faulty_file_changes_nothing() {
    let plane = Plane::start(INI);
    let pool = plane.pool("one", "alice");
    let shared = &plane.control.shared;
    let (config, users) = (
        shared.config.load_full(),
        plane.control.credentials.users.load_full(),
    );
    plane.rewrite(
        "default_pool_size = 5\npool_mode = sometimes\n[databases]\none = host=127.0.0.2\n",
    );
    let failure = reload(&plane.control).expect_err("there is no such mode");
    assert!(
        failure.to_string().contains("weir.ini:6: pool_mode"),
        "{failure}"
    );

    plane.rewrite("default_pool_size = 5\n[databases]\none = host=127.0.0.2\n");
    std::fs::write(
        plane.folder.path().join("users.txt"),
        "\"alice\" \"unfinished",
    )
    .expect("writable");
    let failure = reload(&plane.control).expect_err("the user list is broken");
    assert!(failure.to_string().contains("line 1"), "{failure}");
    assert!(!failure.to_string().contains("unfinished"), "{failure}");

    assert!(Arc::ptr_eq(&config, &shared.config.load_full()));
    assert!(Arc::ptr_eq(
        &users,
        &plane.control.credentials.users.load_full()
    ));
    assert_eq!(
        (
            pool.settings.load().pool_size,
            pool.generation.load(Ordering::Relaxed)
        ),
        (2, 0)
    );
}

#[tokio::test]
async fn a_valid_file_counts_at_once_and_everywhere() {
    let plane = Plane::start(INI);
    let shared = &plane.control.shared;
    let (one, two) = (plane.pool("one", "alice"), plane.pool("two", "alice"));
    let slots: Vec<_> = (0..3).map(|_| shared.try_slot(one.id)).collect();
    assert!(slots[1].is_ok() && slots[2].is_err());
    plane.rewrite("listen_port = 1234\ndefault_pool_size = 3\n[databases]\none = host=127.0.0.1 port=5434\ntwo = host=127.0.0.1\n");
    std::fs::write(plane.folder.path().join("users.txt"), "\"carol\" \"x\"\n").expect("writable");
    reload(&plane.control).expect("the file is valid");
    assert!(shared.try_slot(one.id).is_ok(), "the new limit holds");
    assert_eq!(one.database.load().port(), 5434);
    let generations = [&one, &two].map(|pool| pool.generation.load(Ordering::Relaxed));
    assert_eq!(
        generations,
        [1, 0],
        "only what connects elsewhere is replaced"
    );
    let general = Arc::clone(&shared.config.load().general);
    assert_eq!(
        (general.default_pool_size, general.listen_port),
        (3, 6543),
        "a port changes by a restart only"
    );
    let users = plane.control.credentials.users.load();
    assert!(users.lookup("carol").is_some() && users.lookup("alice").is_none());
}

#[tokio::test]
async fn a_database_that_is_gone_serves_the_clients_it_has() {
    let plane = Plane::start(INI);
    let (one, two) = (plane.pool("one", "alice"), plane.pool("two", "alice"));
    plane.rewrite("[databases]\none = host=127.0.0.1 port=5433 user=bob\n");
    reload(&plane.control).expect("the file is valid");
    assert!(plane.control.shared.config.load().database("two").is_none());
    for pool in [one, two] {
        assert_eq!(pool.generation.load(Ordering::Relaxed), 1);
        assert!(
            pool.database.load().forced_user.is_none(),
            "its log-in does not change under it"
        );
    }
}

#[tokio::test]
async fn set_changes_one_setting_until_the_next_reload() {
    let plane = Plane::start(INI);
    let shared = &plane.control.shared;
    let pool = plane.pool("one", "alice");
    set(&plane.control, "default_pool_size", "9").expect("it can be changed");
    assert_eq!(
        (
            shared.config.load().general.default_pool_size,
            pool.settings.load().pool_size
        ),
        (9, 9)
    );
    for (key, value) in [
        ("default_pool_size", "many"),
        ("listen_port", "1"),
        ("nothing", "1"),
        ("auth_file", "/nowhere"),
    ] {
        assert!(set(&plane.control, key, value).is_err(), "{key}");
    }
    assert_eq!(shared.config.load().general.default_pool_size, 9);
    reload(&plane.control).expect("the file is valid");
    assert_eq!(pool.settings.load().pool_size, 2);
}
