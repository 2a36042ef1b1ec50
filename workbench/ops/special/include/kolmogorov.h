// Kolmogorov's limit distribution, by the two theta series of DLMF 20.2 and 20.7.32, and
// Smirnov's exact one-sided sum of positive terms: Z. W. Birnbaum, F. H. Tingey,
// One-sided confidence contours for probability distribution functions, Ann. Math.
// Statist. 22 (1951), 592-596.
#pragma once

#include <bisection.h>
#include <cupy/xsf/cephes/gamma.h>

namespace workbench {

inline double kolmogorov(double x) {
    if (x != x) {
        return NAN;
    }
    if (x <= 0.02) {
        return 1;
    }
    double sum = 0;
    if (x < 0.82) {
        for (int k = 4; k > 0; --k) {
            double t = (2 * k - 1) * 3.141592653589793 / x;
            sum += std::exp(-0.125 * t * t);
        }
        return 1 - 2.5066282746310002 / x * sum;
    }
    for (int k = 5; k > 0; --k) {
        double term = std::exp(-2.0 * k * k * x * x);
        sum += k % 2 ? term : -term;
    }
    return 2 * sum;
}

inline double kolmogi(double p) {
    if (!(0 <= p && p <= 1)) {
        return NAN;
    }
    if (p == 0) {
        return INFINITY;
    }
    return p == 1 ? 0.0 : bisect([=](double x) { return kolmogorov(x) - p; }, 0.02, 20.0);
}

inline double smirnov(double n, double d) {
    if (!(n > 0) || !(0 <= d && d <= 1)) {
        return NAN;
    }
    n = std::floor(n);
    if (d == 0 || d == 1) {
        return 1 - d;
    }
    double sum = 0, front = xsf::cephes::lgam(n + 1);
    for (double j = 0, end = std::floor(n * (1 - d)); j <= end; j += 1) {
        double up = d + j / n, down = 1 - up, binomial = 1;
        if (down <= 0) {
            continue;
        }
        if (n < 100) {
            for (double i = 0; i < j; i += 1) {
                binomial *= (n - i) / (i + 1);
            }
            sum += binomial * std::pow(up, j - 1) * std::pow(down, n - j);
        } else {
            sum += std::exp(front - xsf::cephes::lgam(j + 1) - xsf::cephes::lgam(n - j + 1) +
                            (j - 1) * std::log(up) + (n - j) * std::log1p(-up));
        }
    }
    return d * sum;
}

inline double smirnovi(double n, double p) {
    if (!(n > 0) || !(0 <= p && p <= 1)) {
        return NAN;
    }
    return bisect([=](double d) { return smirnov(n, d) - p; }, 0.0, 1.0);
}

} // namespace workbench
