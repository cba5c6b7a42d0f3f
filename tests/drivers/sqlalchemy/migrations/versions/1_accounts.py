import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade():
    accounts = op.create_table(
        "sa_accounts",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("owner", sa.String, nullable=False, unique=True),
        sa.Column("balance", sa.Integer, server_default="0", nullable=False),
    )
    op.bulk_insert(accounts, [{"owner": f"owner {n}", "balance": n} for n in range(20)])


def downgrade():
    op.drop_table("sa_accounts")
