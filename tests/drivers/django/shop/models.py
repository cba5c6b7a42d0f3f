"""What the scenarios store."""

from django.db import models


class Customer(models.Model):
    name = models.CharField(max_length=100, unique=True)
    balance = models.IntegerField(default=0)
    since = models.DateTimeField(null=True)
    tags = models.JSONField(default=list)

    class Meta:
        indexes = [models.Index(fields=["balance"], name="shop_customer_balance")]


class Purchase(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="purchases")
    amount = models.DecimalField(max_digits=9, decimal_places=2)
    note = models.TextField(blank=True)
