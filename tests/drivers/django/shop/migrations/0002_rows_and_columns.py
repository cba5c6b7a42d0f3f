from django.db import migrations, models


def fill(apps, schema_editor):
    customers = apps.get_model("shop", "Customer").objects.using(schema_editor.connection.alias)
    first = customers.create(name="first")
    first.purchases.create(amount=12.5)


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.AddField("Customer", "since", models.DateTimeField(null=True)),
        migrations.AddField("Purchase", "note", models.TextField(blank=True, default="")),
        migrations.AlterField("Purchase", "amount", models.DecimalField(max_digits=9, decimal_places=2)),
        migrations.AlterField("Purchase", "note", models.TextField(blank=True)),
    ]
