// Struve functions: the power series, in pairs of doubles as its terms alternate, DLMF
// 11.2.1; the asymptotic one, 11.6.1; Bessel functions, 11.4.19. The best of them.
#pragma once

#include <cupy/xsf/bessel.h>
#include <cupy/xsf/cephes/gamma.h>

namespace workbench {

// An unevaluated sum of two doubles: T. J. Dekker, A floating-point technique for
// extending the available precision, Numer. Math. 18 (1971), 224-242.
struct Pair {
    double high, low;
};

inline Pair add(Pair a, Pair b) {
    double s = a.high + b.high, t = s - a.high;
    double error = (a.high - (s - t)) + (b.high - t) + a.low + b.low;
    double sum = s + error;
    return Pair{sum, error - (sum - s)};
}

inline Pair multiply(Pair a, Pair b) {
    double p = a.high * b.high;
    double error = std::fma(a.high, b.high, -p) + (a.high * b.low + a.low * b.high);
    double product = p + error;
    return Pair{product, error - (product - p)};
}

inline Pair divide(Pair a, Pair b) {
    double q = a.high / b.high;
    Pair qb = multiply(Pair{q, 0}, b);
    Pair rest = add(a, Pair{-qb.high, -qb.low});
    return add(Pair{q, 0}, Pair{rest.high / b.high, 0});
}

struct Estimate {
    double value, error;
};

inline Estimate sum_powers(double v, double z, double sign) {
    double exponent = -xsf::cephes::lgam(v + 1.5) + (v + 1) * std::log(0.5 * z), scale = 0;
    if (std::abs(exponent) > 600) {
        scale = 0.5 * exponent;
        exponent -= scale;
    }
    double first = 2 / std::sqrt(3.141592653589793) * std::exp(exponent) *
                   xsf::cephes::gammasgn(v + 1.5);
    Pair term{first, 0}, sum = term, square = multiply(Pair{z, 0}, Pair{z, 0});
    square = Pair{sign * square.high, sign * square.low};
    double largest = std::abs(first);
    for (int n = 0; n < 10000; ++n) {
        Pair below = multiply(Pair{3.0 + 2 * n, 0}, add(Pair{3.0 + 2 * n, 0}, Pair{2 * v, 0}));
        term = divide(multiply(term, square), below);
        sum = add(sum, term);
        double size = std::abs(term.high);
        largest = size > largest ? size : largest;
        if (!(size > 1e-28 * std::abs(sum.high)) || !std::isfinite(sum.high)) {
            break;
        }
    }
    double value = sum.high + sum.low, error = std::abs(term.high) + 1e-27 * largest;
    error += 1e-16 * std::abs(value);
    return Estimate{value * std::exp(scale), error * std::exp(scale)};
}

inline Estimate sum_asymptotically(double v, double z, double sign) {
    if (z < v || z < 2) {
        return Estimate{NAN, INFINITY};
    }
    double term = -sign / std::sqrt(3.141592653589793) *
                  std::exp((v - 1) * std::log(0.5 * z) - xsf::cephes::lgam(v + 0.5)) *
                  xsf::cephes::gammasgn(v + 0.5);
    double sum = term, largest = std::abs(term);
    for (int n = 0; n < 0.5 * z && n < 10000; ++n) {
        double next = term * sign * (1 + 2 * n) * (1 + 2 * n - 2 * v) / (z * z);
        if (std::abs(next) > std::abs(term) && n > v) {
            break;
        }
        term = next;
        sum += term;
        largest = std::abs(term) > largest ? std::abs(term) : largest;
        if (!(std::abs(term) > 1e-16 * std::abs(sum))) {
            break;
        }
    }
    double bessel = sign < 0 ? xsf::cyl_bessel_y(v, z) : xsf::cyl_bessel_i(v, z);
    return Estimate{sum + bessel, std::abs(term) + 1e-16 * (largest + std::abs(bessel))};
}

inline Estimate sum_bessel(double v, double z, double sign) {
    if (v < 0) {
        return Estimate{NAN, INFINITY};
    }
    double factor = std::sqrt(z / 6.283185307179586), sum = 0, term = 0, largest = 0;
    for (int n = 0; n < 1000; ++n) {
        double order = n + v + 0.5;
        double bessel = sign < 0 ? xsf::cyl_bessel_j(order, z) : xsf::cyl_bessel_i(order, z);
        term = factor * bessel / (n + 0.5);
        sum += term;
        largest = std::abs(term) > largest ? std::abs(term) : largest;
        if (!(std::abs(term) > 1e-17 * std::abs(sum))) {
            break;
        }
        factor *= sign * -0.5 * z / (n + 1);
    }
    return Estimate{sum, std::abs(term) + 1e-16 * largest};
}

// `sign` is that of the series: -1 for H, 1 for L.
inline double sum_struve(double v, double z, double sign) {
    if (v != v || z != z) {
        return NAN;
    }
    double turn = 1, order = std::floor(v);
    if (z < 0) {
        if (v != order) {
            return NAN;
        }
        z = -z;
        turn = std::fmod(order, 2.0) == 0 ? -1 : 1;
    }
    if (z == 0) {
        return v < -1 ? xsf::cephes::gammasgn(v + 1.5) * INFINITY : v == -1 ? 2 / 3.141592653589793 : 0.0;
    }
    double n = -v - 0.5;
    if (n > 0 && n == std::floor(n)) { // DLMF 11.4.3 and 11.4.4
        if (sign > 0) {
            return turn * xsf::cyl_bessel_i(n + 0.5, z);
        }
        return turn * (std::fmod(n, 2.0) == 0 ? 1 : -1) * xsf::cyl_bessel_j(n + 0.5, z);
    }
    Estimate best{NAN, INFINITY};
    for (int way = 0; way < 3; ++way) {
        if (best.error < 1e-14 * std::abs(best.value) || (way == 2 && z > std::abs(v) + 20) ||
            (way == 0 && z < 0.7 * v + 12)) {
            continue;
        }
        Estimate next = way == 0   ? sum_asymptotically(v, z, sign)
                        : way == 1 ? sum_powers(v, z, sign)
                                   : sum_bessel(v, z, sign);
        if (next.error < best.error) {
            best = next;
        }
    }
    if (best.error <= 1e-7 * std::abs(best.value) || best.error < 1e-300) {
        return turn * best.value;
    }
    double exponent = -xsf::cephes::lgam(v + 1.5) + (v + 1) * std::log(0.5 * z);
    if (sign > 0) {
        exponent = std::abs(z);
    }
    return exponent > 700 ? turn * xsf::cephes::gammasgn(v + 1.5) * INFINITY : NAN;
}

inline double struve(double v, double z) { return sum_struve(v, z, -1); }
inline double modstruve(double v, double z) { return sum_struve(v, z, 1); }

// Integrals of order 0: the series term by term; far out, of DLMF 11.6.1.

// The sum of t_k / (2k + power), with t_k that of H, or of L.
inline double integrate_powers(double x, double sign, int power) {
    Pair term{x, 0}, square = multiply(Pair{x, 0}, Pair{x, 0}), sum{x / power, 0};
    sum = divide(term, Pair{double(power), 0});
    square = Pair{sign * square.high, sign * square.low};
    for (int k = 1; k < 3000; ++k) {
        double odd = 2 * k + 1;
        term = divide(multiply(term, square), Pair{odd * odd, 0});
        Pair part = divide(term, Pair{2.0 * k + power, 0});
        sum = add(sum, part);
        if (!(std::abs(part.high) > 1e-30 * std::abs(sum.high)) || !std::isfinite(sum.high)) {
            break;
        }
    }
    return 0.6366197723675814 * (sum.high + sum.low);
}

inline double itstruve0(double x) {
    x = std::abs(x);
    if (x < 30) {
        return x * integrate_powers(x, -1, 2);
    }
    double term = 1, sum = 0, j, y;
    for (int k = 1; k < 15; ++k) {
        term *= -(2.0 * k - 1) * (2 * k - 1) / (x * x);
        sum += term / (2 * k);
    }
    xsf::it1j0y0(x, j, y);
    return y + 0.6366197723675814 * (std::log(2 * x) + 0.5772156649015329 - sum);
}

inline double it2struve0(double x) {
    double z = std::abs(x), value, j, y;
    if (z < 30) {
        value = 1.5707963267948966 - integrate_powers(z, -1, 1);
    } else {
        double term = 1 / z, sum = term;
        for (int k = 1; k < 15; ++k) {
            term *= -(2.0 * k - 1) * (2 * k - 1) / (z * z);
            sum += term / (2 * k + 1);
        }
        xsf::it2j0y0(z, j, y);
        value = y + 0.6366197723675814 * sum;
    }
    return x < 0 ? 3.141592653589793 - value : value;
}

inline double itmodstruve0(double x) {
    x = std::abs(x);
    return x * integrate_powers(x, 1, 2);
}

} // namespace workbench
