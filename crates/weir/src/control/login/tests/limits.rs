//! How many clients there may be, and what an operator has closed.

use super::*;

const USERS: &str = "\"app\" \"\"\n\"other\" \"\"\n";

fn house(settings: &str) -> House {
    let house = House::open(
        &format!("auth_type = trust\nadmin_users = app\n{settings}"),
        USERS,
    );
    house
        .pool("other")
        .welcome
        .store(house.pool("app").welcome.load_full());
    house
}

#[tokio::test]
async fn a_limit_is_exact_and_a_place_comes_back() {
    let cases = [
        (
            "max_client_conn = 1",
            "no more connections allowed (max_client_conn)",
        ),
        (
            "max_db_client_connections = 1",
            "client connections exceeded (max_db_client_connections)",
        ),
        (
            "max_user_client_connections = 1",
            "client connections exceeded (max_user_client_connections)",
        ),
    ];
    for (setting, message) in cases {
        let house = house(setting);
        house.start("app", "db").await.greeting().await;
        let clients = house.clients();
        let told = house.start("app", "db").await.refusal().await;
        assert_eq!(
            told,
            Told {
                sqlstate: "53300".to_owned(),
                message: message.to_owned()
            }
        );
        drop(clients);
        house.start("app", "db").await.greeting().await;
    }
}

#[tokio::test]
async fn limits_of_one_user_are_not_another_ones() {
    let house = house("max_user_client_connections = 1");
    house.start("app", "db").await.greeting().await;
    house.start("other", "db").await.greeting().await;
    assert_eq!(house.clients().len(), 2);
}

#[tokio::test]
async fn the_console_is_open_when_clients_are_shut_out() {
    let mut house = house("max_client_conn = 1");
    house.start("app", "db").await.greeting().await;
    let _clients = house.clients();
    house.start("app", "pgbouncer").await.greeting().await;
    assert_eq!(
        house.consoles.recv().await.unwrap().privilege,
        Privilege::Admin
    );

    house.reception.refuse_clients();
    assert_eq!(
        house.start("app", "db").await.refusal().await.sqlstate,
        "57P01"
    );
    house.start("app", "pgbouncer").await.greeting().await;
}

#[tokio::test]
async fn a_disabled_database_takes_no_new_clients() {
    let house = house("");
    house
        .pool("app")
        .state
        .disabled
        .store(true, Ordering::Relaxed);
    assert_eq!(
        house.start("app", "db").await.refusal().await.message,
        "database does not allow connections: db"
    );
}

#[tokio::test]
async fn connections_that_say_nothing_are_bounded() {
    let house = house("max_client_conn = 1\ncancel_connections_max = 1");
    let silent = [house.knock().await, house.knock().await];
    for mut guest in silent {
        guest.send(&[0]).await;
        std::mem::forget(guest.stream.into_std().unwrap());
    }
    while house.reception.arrivals() < 2 {
        tokio::task::yield_now().await;
    }
    let mut third = house.knock().await;
    third.send(&[0]).await;
    third.end().await;
}

/// Ten thousand clients may log in at the same time.
#[tokio::test]
async fn a_log_in_on_its_way_is_small() {
    let house = house("");
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let nowhere = Address::Unix(Path::new("/nowhere").to_owned());
    let arrival = house.reception.arrive().unwrap();
    let visitor = Visitor {
        socket,
        peer: nowhere.clone(),
        local: nowhere,
        arrival,
    };
    let size = size_of_val(&serve(Arc::clone(&house.reception), visitor));
    assert!(size <= 1536, "{size} bytes");
}
