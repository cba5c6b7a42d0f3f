"""One view, each request a transaction."""

from django.db import connection
from django.http import JsonResponse
from django.urls import path

from shop.models import Customer


def pay(request, name, amount):
    customer = Customer.objects.select_for_update().get(name=name)
    customer.balance += amount
    customer.save()
    if "fail" in request.GET:
        raise ValueError("the view fails after it has written")
    with connection.cursor() as cursor:
        cursor.execute("SHOW TimeZone")
        zone = cursor.fetchone()[0]
    return JsonResponse({"balance": customer.balance, "zone": zone})


urlpatterns = [path("pay/<str:name>/<int:amount>", pay)]
