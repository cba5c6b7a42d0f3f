from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            "Customer",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100, unique=True)),
                ("balance", models.IntegerField(default=0)),
                ("tags", models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            "Purchase",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("customer", models.ForeignKey("shop.Customer", models.CASCADE, related_name="purchases")),
                ("amount", models.FloatField()),
            ],
        ),
    ]
