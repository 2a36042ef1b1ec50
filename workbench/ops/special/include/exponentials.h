// Functions around powers and exponentials: hyp0f1, powm1, wrightomega.
#pragma once

#include <cupy/xsf/bessel.h>
#include <cupy/xsf/cephes/gamma.h>

namespace workbench {

// DLMF 10.39.9 and 10.16.9: a Bessel function, near 0 the series.
inline double hyp0f1(double v, double z) {
    if (v <= 0 && v == std::floor(v)) {
        return NAN;
    }
    if (std::abs(z) < 1e-6 * (1 + std::abs(v))) {
        return 1 + z / v + z * z / (2 * v * (v + 1));
    }
    double root = std::sqrt(std::abs(z));
    if (z < 0) {
        return std::pow(root, 1 - v) * xsf::cephes::Gamma(v) * xsf::cyl_bessel_j(v - 1, 2 * root);
    }
    double log_front = (1 - v) * std::log(root) + xsf::cephes::lgam(v);
    double y = xsf::cyl_bessel_ie(v - 1, 2 * root);
    if (y != 0 && log_front < 600) {
        return std::exp(log_front + 2 * root) * xsf::cephes::gammasgn(v) * y;
    }
    double sum = 1, term = 1; // of a large v: it converges at once
    for (int k = 0; k < 2000 && std::abs(term) > 1e-17 * std::abs(sum); ++k) {
        term *= z / ((v + k) * (k + 1));
        sum += term;
    }
    return sum;
}

inline std::complex<double> hyp0f1(double v, std::complex<double> z) {
    if (v <= 0 && v == std::floor(v)) {
        return std::complex<double>(NAN, 0);
    }
    if (z.real() == 0 && z.imag() == 0) {
        return 1.0;
    }
    if (std::abs(z) < 1e-6 * (1 + std::abs(v))) {
        return 1.0 + z / v + z * z / (2 * v * (v + 1));
    }
    bool right = z.real() > 0;
    std::complex<double> root = std::sqrt(right ? z : -z);
    std::complex<double> y = right ? xsf::cyl_bessel_i(v - 1, 2.0 * root)
                                   : xsf::cyl_bessel_j(v - 1, 2.0 * root);
    return xsf::cephes::Gamma(v) * std::pow(root, std::complex<double>(1 - v)) * y;
}

// x^y - 1 without loss where it is small.
inline double powm1(double x, double y) {
    if (x < 0) {
        if (y != std::floor(y)) {
            return NAN;
        }
        if (std::fmod(y, 2.0) != 0) {
            return std::pow(x, y) - 1;
        }
        x = -x;
    }
    if (x > 0 && std::abs(y * (x - 1)) < 0.5) {
        double t = y * std::log(x);
        if (std::abs(t) < 0.5) {
            return std::expm1(t);
        }
    }
    return std::pow(x, y) - 1;
}

// The solution of w + log(w) = z: P. W. Lawrence, R. M. Corless, D. J. Jeffrey,
// Algorithm 917: complex double-precision evaluation of the Wright omega function,
// ACM Trans. Math. Softw. 38 (2012), 20. A step of order four from a rough start.
inline double wrightomega(double z) {
    if (z != z || z > 1e20) {
        return z;
    }
    if (z < -50) {
        return std::exp(z);
    }
    double w = z < -2 ? std::exp(z) : z < 1 ? std::exp(2 * (z - 1) / 3) : z - std::log(z) + std::log(z) / z;
    for (int step = 0; step < 3; ++step) {
        double r = z - w - std::log(w), a = w + 1, t = 2 * a * (a + 2 * r / 3);
        w *= 1 + r / a * (t - r) / (t - 2 * r);
    }
    return w;
}

inline std::complex<double> wrightomega(std::complex<double> z) {
    typedef std::complex<double> Complex;
    const double pi = 3.141592653589793;
    const Complex i(0, 1);
    double x = z.real(), y = z.imag();
    if (x != x || y != y) {
        return Complex(NAN, NAN);
    }
    if (!std::isfinite(x) || !std::isfinite(y)) {
        if (x < 0 && !std::isfinite(x) && -pi < y && y <= pi) {
            bool right = std::abs(y) <= pi / 2;
            return Complex(right ? 0.0 : -0.0, y >= 0 ? 0.0 : -0.0);
        }
        return z;
    }
    Complex w, p;
    bool middle = -2 < x && x <= 1;
    if (middle && 1 < y && y < 2 * pi) { // around the branch point -1 + pi i
        p = std::conj(std::sqrt(std::conj(2.0 * (z + 1.0 - pi * i))));
        w = -1.0 + (i + (1.0 / 3 + (-1.0 / 36 * i + (1.0 / 270 + 1.0 / 4320 * i * p) * p) * p) * p) * p;
    } else if (middle && -2 * pi < y && y < -1) {
        p = std::conj(std::sqrt(std::conj(2.0 * (z + 1.0 + pi * i))));
        w = -1.0 + (-i + (1.0 / 3 + (1.0 / 36 * i + (1.0 / 270 - 1.0 / 4320 * i * p) * p) * p) * p) * p;
    } else if (x <= -2 && -pi < y && y <= pi) {
        p = std::exp(z);
        w = (1.0 + (-1.0 + (1.5 + (-8.0 / 3 + 125.0 / 24 * p) * p) * p) * p) * p;
        if (w.real() == 0 && w.imag() == 0) {
            return w;
        }
    } else if ((middle && -1 <= y && y <= 1) || (x > -2 && (x - 1) * (x - 1) + y * y <= pi * pi)) {
        p = z - 1.0;
        w = 0.5 + 0.5 * z + (1.0 / 16 + (-1.0 / 192 + (-1.0 / 3072 + 13.0 / 61440 * p) * p) * p) * p * p;
    } else {
        Complex t = z;
        bool cut = x <= -1.05;
        if (cut && pi < y && y - pi <= -0.75 * (x + 1)) {
            t = z - pi * i;
        } else if (cut && 0.75 * (x + 1) < y + pi && y + pi <= 0) {
            t = z + pi * i;
        }
        p = std::log(t.imag() == y ? t : -t);
        w = t - p + p / t + p * (0.5 * p - 1.0) / (t * t);
    }
    double sign = 1;
    Complex near = z;
    if (x <= -0.99 && std::abs(y - pi) <= 1e-2) { // along the cuts, of -w
        sign = -1;
        near = Complex(x, y - pi);
    } else if (x <= -0.99 && std::abs(y + pi) <= 1e-2) {
        sign = -1;
        near = Complex(x, y + pi);
    }
    w = sign * w;
    for (int step = 0; step < 3; ++step) {
        Complex r = near - sign * w - std::log(w), a = sign * w + 1.0;
        if (a.real() == 0 && a.imag() == 0) {
            break;
        }
        Complex t = 2.0 * a * (a + 2.0 / 3 * r);
        w = w * (1.0 + r / a * (t - r) / (t - 2.0 * r));
    }
    return sign * w;
}

} // namespace workbench
