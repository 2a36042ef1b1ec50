// Bisection over the floating-point numbers themselves: positive ones have the order of
// their bits, so that 64 steps end at neighbours, whatever the scale of the solution.
#pragma once

#ifndef __CUDACC__
#include <cstring>
#endif

namespace workbench {

inline long long bits_of(double x) {
    long long bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
inline double number_of(long long bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Where f changes its sign between two numbers that are not negative; the bound that is
// nearer to a solution where it does not.
template <typename F>
double bisect(F f, double low, double high) {
    double at_low = f(low), at_high = f(high);
    if (at_low != at_low || at_high != at_high) {
        return NAN;
    }
    if (at_low == 0) {
        return low;
    }
    if ((at_low > 0) == (at_high > 0)) {
        return std::abs(at_low) < std::abs(at_high) ? low : high;
    }
    long long a = bits_of(low), b = bits_of(high);
    while (b - a > 1) {
        long long middle = a + (b - a) / 2;
        double y = f(number_of(middle));
        if (y == 0) {
            return number_of(middle);
        }
        if ((y > 0) == (at_low > 0)) {
            a = middle;
            at_low = y;
        } else {
            b = middle;
            at_high = y;
        }
    }
    return std::abs(f(number_of(a))) < std::abs(f(number_of(b))) ? number_of(a) : number_of(b);
}

// The solution next to a start, for a function that may rise and fall again: steps by
// factors of two in both directions until the sign changes.
template <typename F>
double solve_near(F f, double start, double low, double high) {
    double left = start, right = start, at_left = f(start), at_right = at_left;
    if (at_left != at_left || at_left == 0) {
        return at_left == 0 ? start : NAN;
    }
    bool above = at_left > 0;
    while (left > low || right < high) {
        if (right < high) {
            double next = 2 * right < high ? 2 * right : high;
            at_right = f(next);
            if ((at_right > 0) != above) {
                return bisect(f, right, next);
            }
            right = next;
        }
        if (left > low) {
            double next = 0.5 * left > low ? 0.5 * left : low;
            at_left = f(next);
            if ((at_left > 0) != above) {
                return bisect(f, next, left);
            }
            left = next;
        }
    }
    return std::abs(at_left) < std::abs(at_right) ? left : right;
}

// `bisect` between -high and high.
template <typename F>
double bisect_signed(F f, double high) {
    double at_zero = f(0.0), at_high = f(high);
    if (at_zero == 0) {
        return 0;
    }
    if ((at_zero > 0) != (at_high > 0)) {
        return bisect(f, 0.0, high);
    }
    return -bisect([=](double x) { return f(-x); }, 0.0, high);
}

} // namespace workbench
