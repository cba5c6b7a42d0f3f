from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("shop", "0002_rows_and_columns")]
    operations = [
        AddIndexConcurrently("Customer", models.Index(fields=["balance"], name="shop_customer_balance")),
    ]
