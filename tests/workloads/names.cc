// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Names that only C++ has, one chain of calls: main, start() in a nameless namespace, a member of a
 * template, a lambda in it, an operator, a conversion, a virtual function, a destructor, which burns.
 */
#include "workload.h"

#define KEPT __attribute__((noinline, noclone))

namespace shop
{
struct Burner {
	KEPT ~Burner()
	{
		burn(200000);
		BARRIER();
	}
};

struct Shape {
	virtual long area(const char *unit) const = 0;
};

struct Square final : Shape {
	KEPT long area(const char *unit) const override
	{
		{
			Burner burner;
		}
		BARRIER();
		return *unit;
	}
};

struct Item {
	const Shape *shape;
	KEPT explicit operator long() const
	{
		long area = shape->area("m");

		BARRIER();
		return area;
	}
};

KEPT long operator+(const Item &a, const Item &b)
{
	long sum = static_cast<long>(a);

	BARRIER();
	return sum + (b.shape != nullptr);
}

template <typename T, unsigned N> struct Cart {
	Item items[N];
	KEPT T total(T start) const
	{
		auto add = [this](T more) KEPT {
			long sum = items[0] + items[N - 1];

			BARRIER();
			return T(sum) + more;
		};
		T sum = add(start);

		BARRIER();
		return sum;
	}
};
} // namespace shop

namespace
{
shop::Square square;
volatile long sink;

KEPT void start()
{
	shop::Cart<int, 2> cart = { { { &square }, { &square } } };

	sink = cart.total(1);
	BARRIER();
}
} // namespace

int main()
{
	ready();
	for (;;) {
		start();
		BARRIER();
	}
}
