"""Run by Django's own test runner, in a database that it makes and drops."""

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from shop.models import Customer


class InOneTransaction(TestCase):
    databases = {"default"}

    @classmethod
    def setUpTestData(cls):
        cls.customer = Customer.objects.create(name="of the class")

    def test_rolled_back(self):
        self.customer.balance = 5
        self.customer.save()
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            transaction.on_commit(lambda: None)
        self.assertEqual(len(callbacks), 1)

    def test_starts_fresh(self):
        self.assertEqual(Customer.objects.get(name="of the class").balance, 0)
        self.assertIn(self.customer, list(Customer.objects.iterator(1)))


class WithCommits(TransactionTestCase):
    """All tables are emptied after each test."""

    databases = {"default"}

    def setUp(self):
        Customer.objects.filter(name="first").delete()

    def test_kept_one_way(self):
        with transaction.atomic():
            Customer.objects.create(name="kept")
        connection.close()
        self.assertEqual(Customer.objects.count(), 1)

    def test_kept_another_way(self):
        Customer.objects.create(name="kept")
        self.assertEqual(Customer.objects.filter(name="kept").count(), 1)
