"""Django: migrations, transactions, server-side cursors, settings of each database, requests, its own test runner."""

import io
import os
from concurrent.futures import ThreadPoolExecutor

import django
import psycopg
from django.conf import settings

from scenarios import CLIENTS, POOL_SIZE, by_many, equal, run

# Clients beyond this share of the pool may not keep a server connection: max_pinned.
MAY_BE_PINNED = POOL_SIZE * 4 // 5
ZONES = ["UTC", "Asia/Kathmandu", "America/Caracas"]


def database(**settings):
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
        "USER": os.environ["PGUSER"],
        "PASSWORD": os.environ["PGPASSWORD"],
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
        "CONN_MAX_AGE": None,
        **settings,
    }


def databases():
    tenants = {
        f"tenant_{n}": database(
            TIME_ZONE=ZONES[n],
            OPTIONS={
                "options": f"-c search_path=tenant_{n} -c app.tenant=number_{n}",
                "application_name": f"tenant {n}",
                "isolation_level": psycopg.IsolationLevel(n + 2),
            },
        )
        for n in range(3)
    }
    return tenants | {
        "default": database(ATOMIC_REQUESTS=True),
        "direct": database(PORT=os.environ["WEIR_DIRECT_PORT"]),
        "bound": database(OPTIONS={"server_side_binding": True}),
        "checked": database(CONN_HEALTH_CHECKS=True, CONN_MAX_AGE=0),
        "pool": database(CONN_MAX_AGE=0, OPTIONS={"pool": {"min_size": 1, "max_size": CLIENTS}}),
        "role": database(OPTIONS={"assume_role": "django_role"}),
    }


settings.configure(
    DATABASES=databases(),
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "shop"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    ROOT_URLCONF="shop.urls",
    ALLOWED_HOSTS=["testserver"],
    SECRET_KEY="not a secret",
    USE_TZ=True,
    TIME_ZONE="UTC",
)
django.setup()

from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, OperationalError, connections, transaction
from django.db.models import Count, F, Sum
from django.test import Client
from django.utils import timezone

from shop.models import Customer, Purchase

SHARED = ["default", "bound", "checked", "pool"]


def as_superuser(*statements):
    with psycopg.connect(port=os.environ["WEIR_DIRECT_PORT"], user="postgres", autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def command(name, *arguments, **options):
    out = io.StringIO()
    call_command(name, *arguments, stdout=out, no_color=True, **options)
    return out.getvalue()


def value(alias, sql):
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def threads(work):
    """As many threads as clients, each with connections of its own, closed in the end."""

    def closing(client):
        try:
            return work(client)
        finally:
            connections.close_all()

    return by_many(closing)


def migrations():
    """Forwards, back, forwards again; the schema is the one that comes out directly."""
    forwards = command("migrate")
    schema = command("inspectdb", database="direct")
    equal(command("inspectdb"), schema)
    equal(Purchase.objects.get(customer__name="first").amount, 12.5)
    command("migrate", "shop", "zero")
    equal("class ShopCustomer" in command("inspectdb", database="direct"), False)
    command("migrate")
    equal(command("inspectdb"), schema)
    equal("No migrations to apply" in command("migrate"), True)
    command("migrate", "shop", "zero", database="direct")
    equal(forwards.replace("\n", "").endswith("OK"), True)
    command("migrate", database="direct")
    equal(command("inspectdb", database="direct"), schema)
    equal(command("makemigrations", "--dry-run"), "No changes detected\n")


def transactions():
    for alias in SHARED:

        def work(client):
            customers = Customer.objects.using(alias)
            for round in range(5):
                name = f"{alias} {client} {round}"
                done = []
                with transaction.atomic(using=alias, durable=True):
                    customer = customers.create(name=name, tags=[client, {"round": round}])
                    transaction.on_commit(lambda: done.append(name), using=alias)
                    for attempt in ("lost", "lost again"):
                        try:
                            with transaction.atomic(using=alias):
                                customers.filter(pk=customer.pk).update(balance=99)
                                customers.create(name=name)
                        except IntegrityError:
                            pass
                    customer.purchases.using(alias).bulk_create(Purchase(customer=customer, amount=n) for n in range(50))
                equal(done, [name])
                equal(customers.get(name=name).balance, 0)
                totals = customers.filter(name=name).aggregate(Sum("purchases__amount"), Count("purchases"))
                equal(list(totals.values()), [1225, 50])
                try:
                    with transaction.atomic(using=alias):
                        customers.filter(name=name).delete()
                        raise KeyError("the program gives up")
                except KeyError:
                    pass
                equal(customers.filter(name=name).values_list("tags", flat=True)[0], [client, {"round": round}])
                if alias == "checked":
                    connections[alias].close_if_unusable_or_obsolete()

        threads(work)


def rows_locked():
    customer = Customer.objects.create(name="locked")

    def work(client):
        alias = SHARED[client % 3]
        for _ in range(10):
            with transaction.atomic(using=alias):
                found = Customer.objects.using(alias).select_for_update().get(pk=customer.pk)
                found.balance += client
                found.save(using=alias)
            Customer.objects.using(alias).filter(pk=customer.pk).update(balance=F("balance") + 1)

    threads(work)
    customer.refresh_from_db()
    equal(customer.balance, sum(range(CLIENTS)) * 10 + CLIENTS * 10)


def iterators():
    """In a transaction these are cursors of the transaction."""
    customer = Customer.objects.create(name="iterated")
    Purchase.objects.bulk_create(Purchase(customer=customer, amount=n) for n in range(500))

    def work(client):
        alias = SHARED[client % 4]
        purchases = Purchase.objects.using(alias).filter(customer=customer).order_by("pk")
        for _ in range(3):
            with transaction.atomic(using=alias):
                amounts = [purchase.amount for purchase in purchases.iterator(chunk_size=60)]
            equal(amounts, list(range(500)))
            with transaction.atomic(using=alias):
                rows = purchases.prefetch_related("customer").iterator(chunk_size=100)
                equal(next(rows).customer.name, "iterated")

    threads(work)


def iterators_without_transaction():
    """These are holdable cursors, which keep a server connection. Others' settings are set in between."""
    customer = Customer.objects.get(name="iterated")

    def work(client):
        alias = SHARED[client % 4]
        purchases = Purchase.objects.using(alias).filter(customer=customer).order_by("pk")
        rows = purchases.iterator(chunk_size=100)
        for n, purchase in enumerate(rows):
            equal(purchase.amount, n)
            if n % 90 == 0:
                purchases.filter(pk=purchase.pk).update(note=str(client))

    def closing(client):
        try:
            work(client)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(MAY_BE_PINNED) as some:
        list(some.map(closing, range(CLIENTS)))


def each_tenant_its_own():
    """Time zone, search_path, isolation and custom parameters of three databases that share one pool, beside one that sets nothing."""
    for n in range(3):
        as_superuser(f"CREATE SCHEMA tenant_{n} AUTHORIZATION weir_scram")
        equal(value(f"tenant_{n}", "SHOW search_path"), f"tenant_{n}")
        command("migrate", database=f"tenant_{n}")
        Customer.objects.using(f"tenant_{n}").create(name=f"of {n}", since=timezone.now())

    def work(client):
        n = client % 3
        alias = f"tenant_{n}"
        for _ in range(8):
            equal(value(alias, "SHOW search_path"), alias)
            equal(value(alias, "SHOW TimeZone"), ZONES[n])
            equal(value(alias, "SHOW application_name"), f"tenant {n}")
            equal(value(alias, "SELECT current_setting('app.tenant')"), f"number_{n}")
            names = Customer.objects.using(alias).order_by("name").values_list("name", flat=True)
            equal(list(names), ["first", f"of {n}"])
            equal(value("default", "SELECT current_setting('app.tenant', true)") or "", "")
            equal(value("default", "SHOW search_path"), '"$user", public')
            equal(value("default", "SHOW TimeZone"), "UTC")
            with transaction.atomic(using=alias):
                equal(value(alias, "SHOW transaction_isolation"), ["read committed", "repeatable read", "serializable"][n])
                Customer.objects.using(alias).filter(name=f"of {n}").update(tags=[client])
                transaction.set_rollback(True, using=alias)
            equal(Customer.objects.using(alias).get(name=f"of {n}").tags, [])

    threads(work)


def roles():
    as_superuser("CREATE ROLE django_role", "GRANT django_role TO weir_scram")

    def work(client):
        for _ in range(8):
            equal(value("role", "SELECT current_user"), "django_role")
            equal(value("bound", "SELECT current_user"), "weir_scram")
            try:
                Customer.objects.using("role").count()
                raise AssertionError("the role has no right to the table")
            except DatabaseError as error:
                equal("permission denied" in str(error), True)

    threads(work)


def requests():
    for n in range(3):
        Customer.objects.create(name=f"pays {n}")

    def work(client):
        browser = Client(raise_request_exception=False)
        for _ in range(6):
            name = f"pays {client % 3}"
            equal(browser.get(f"/pay/{name}/2").json()["zone"], "UTC")
            equal(browser.get(f"/pay/{name}/500?fail").status_code, 500)
            equal(browser.get("/pay/nobody/1").status_code, 500)

    threads(work)
    balances = Customer.objects.filter(name__startswith="pays").aggregate(Sum("balance"))
    equal(balances["balance__sum"], CLIENTS * 6 * 2)


def constraints_put_off():
    """Django's foreign keys are checked at commit, or when asked."""

    def work(client):
        alias = SHARED[client % 4]
        for immediate in (False, True):
            try:
                with transaction.atomic(using=alias):
                    Purchase.objects.using(alias).create(customer_id=-client - 1, amount=1)
                    if immediate:
                        connections[alias].check_constraints()
                        raise AssertionError("no customer has this number")
                raise AssertionError("no customer has this number")
            except IntegrityError:
                pass
            equal(Purchase.objects.using(alias).filter(customer_id__lt=0).count(), 0)

    threads(work)


def statement_timeouts():
    def work(client):
        alias = SHARED[client % 4]
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = '20ms'")
            try:
                with transaction.atomic(using=alias):
                    cursor.execute("SELECT pg_sleep(10)")
                raise AssertionError("it should take too long")
            except OperationalError:
                pass
        equal(value(alias, "SHOW statement_timeout"), "0")

    threads(work)


def own_test_runner():
    from django.test.runner import DiscoverRunner

    as_superuser("ALTER ROLE weir_scram CREATEDB")
    for _ in range(2):
        equal(DiscoverRunner(verbosity=0, interactive=False).run_tests(["shop"]), 0)
        equal(value("default", "SELECT count(*) FROM pg_database WHERE datname LIKE 'test_%'"), 0)
    equal(value("default", "SELECT count(*) > 0 FROM shop_customer"), True)


run([
    migrations,
    transactions,
    rows_locked,
    iterators,
    iterators_without_transaction,
    each_tenant_its_own,
    roles,
    requests,
    constraints_put_off,
    statement_timeouts,
    own_test_runner,
])
