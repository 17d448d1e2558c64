"""Versions of jars by line of Spark, and the SHA-256 of each jar.

Written by scripts/write_jar_versions.py, where versions are changed.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ARTIFACTS", "HADOOP_AWS", "SHA256"]

ARTIFACTS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("delta", "4.0"): (
        "io.delta:delta-spark_4.0_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
    ),
    ("delta", "4.1"): (
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
    ),
    ("delta", "4.2"): (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
    ),
    ("iceberg", "4.0"): ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",),
    ("iceberg", "4.1"): ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
}
"""Format and line of Spark: the artifact, then what it needs beside it."""

HADOOP_AWS: Mapping[str, tuple[str, str]] = {
    "4.1": ("3.4.2", "2.29.52"),
}
"""Line of Spark: the release of hadoop-aws, which must be that of the Hadoop in
Spark, and of Amazon's SDK with which it was built."""

SHA256: Mapping[str, str] = {
    "io.delta:delta-spark_4.0_2.13:4.4.0": (
        "49e899667168b9412f83cbe894ce264107d7b896d6c5e12edca4e216845c1104"
    ),
    "io.delta:delta-spark_4.1_2.13:4.4.0": (
        "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10"
    ),
    "io.delta:delta-spark_4.2_2.13:4.4.0": (
        "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead"
    ),
    "io.delta:delta-storage:4.4.0": (
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"
    ),
    "org.apache.hadoop:hadoop-aws:3.4.2": (
        "d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9"
    ),
    "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0": (
        "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc"
    ),
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0": (
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"
    ),
    "org.reactivestreams:reactive-streams:1.0.4": (
        "f75ca597789b3dac58f61857b9ac2e1034a68fa672db35055a8fb4509e325f28"
    ),
    "software.amazon.awssdk:annotations:2.29.52": (
        "8cd8bd8afd7eca5a367f69fd87427f6d9f3e7d359962122da24d71f1963f00cd"
    ),
    "software.amazon.awssdk:apache-client:2.29.52": (
        "c96494be30ecac6f0ab7a35fdd91a4c77ca8a5daf62f3d9d84644ef0f0524dc6"
    ),
    "software.amazon.awssdk:arns:2.29.52": (
        "f5a4d1d9b4e4fc63c9bda49bcf1c59d23fd876b276c6b43aaca12969337303a6"
    ),
    "software.amazon.awssdk:auth:2.29.52": (
        "4d8143b6198dc7a530c2ccdd813129c132b96736086c0d4fea85480b9bdbc5fe"
    ),
    "software.amazon.awssdk:aws-core:2.29.52": (
        "eb560c064fbaac7e2e7f4a77ac343d3083bea0d7f6e2c69ba022d3f3e859be90"
    ),
    "software.amazon.awssdk:aws-query-protocol:2.29.52": (
        "1b117672963ee5059c45f2aadb110f191b578d108d8f08d7c7a59e6c0b098a8e"
    ),
    "software.amazon.awssdk:aws-xml-protocol:2.29.52": (
        "daf87b429373ad586d165003b5b1d4fe498c6472eb65ec9a9e2aa7d56f3917dd"
    ),
    "software.amazon.awssdk:checksums-spi:2.29.52": (
        "21193b9b648843dcaff493f0dd80abab9ee6871b203b9218120554698d8f7b8a"
    ),
    "software.amazon.awssdk:checksums:2.29.52": (
        "bca99ff25c9b917d6be03e5dce78ad5328e7dca485e96024fa8476e4192a800a"
    ),
    "software.amazon.awssdk:crt-core:2.29.52": (
        "4e1f33de21b688695fec91b977ddfa99e9d376edcbad06a62b0c138c60b37de4"
    ),
    "software.amazon.awssdk:endpoints-spi:2.29.52": (
        "e54f246c668d70b55cffe0c8fad18d4465e74e22db75139918bd30610093d1e6"
    ),
    "software.amazon.awssdk:http-auth-aws-eventstream:2.29.52": (
        "565a4aacce955c5ffaed551f6faaaa958e9e92b2f8514c8482f664edb2bab576"
    ),
    "software.amazon.awssdk:http-auth-aws:2.29.52": (
        "7ae124e81ac0c2860bb61fdde34a388dbe823fef8509dd46a6bec805ada90308"
    ),
    "software.amazon.awssdk:http-auth-spi:2.29.52": (
        "7a2168c5a7baa856d7ae9f9c4f7522d2db9f1361108c38f5b6ece66f249e6a2d"
    ),
    "software.amazon.awssdk:http-auth:2.29.52": (
        "d8aa3bd376aaec7196396e65fe8755f1fdd169e51357f8128ecdc7d23a687450"
    ),
    "software.amazon.awssdk:http-client-spi:2.29.52": (
        "8ea61ce3b527779fbfe119e0775c4b7cfdf274a979b1e50596a634685a5b6542"
    ),
    "software.amazon.awssdk:identity-spi:2.29.52": (
        "85104635abf9e5c044aaf7f8951b63efc2ef82051b5ee303571ee2e1fd8b46d0"
    ),
    "software.amazon.awssdk:json-utils:2.29.52": (
        "2652cdb3668311bcff6e643c8612b9fea266423ae1ce33743c84dd7f77904311"
    ),
    "software.amazon.awssdk:metrics-spi:2.29.52": (
        "1db2e3da338148ee40a716e1733c9a5b99e9e6daa4db3aa8bd7e718adafa2510"
    ),
    "software.amazon.awssdk:netty-nio-client:2.29.52": (
        "07238668c9cf54531ee269fd6e2a1e2650fb75d6774d401f406c2a14f26af654"
    ),
    "software.amazon.awssdk:profiles:2.29.52": (
        "fef84619d101838ba45f48d0caddb09a85d9ed8bf869095bd7d2064796856cf7"
    ),
    "software.amazon.awssdk:protocol-core:2.29.52": (
        "7b32e41a3743b422d2edec1670f60b4c1e512fcd5ab7a53fef20742d6b9104d1"
    ),
    "software.amazon.awssdk:regions:2.29.52": (
        "5ee0e26277c679ffa70d83923b0d5f77a53066ecde8610f28be1856947d60eaf"
    ),
    "software.amazon.awssdk:retries-spi:2.29.52": (
        "a4218ea742fc9e07a620629d7a258bfd92b8ea3ef75f1b99193d0898ca3efe99"
    ),
    "software.amazon.awssdk:retries:2.29.52": (
        "ca3752ba31399721980c6398992921ff5aa164e084b4c14484333df58c76a353"
    ),
    "software.amazon.awssdk:s3-transfer-manager:2.29.52": (
        "0c9e654637247187a7e2494eb7a8799477a772a7d554cd3ae787cd3e3bae3c55"
    ),
    "software.amazon.awssdk:s3:2.29.52": (
        "abaedea7e68063e9c4ab090f80d14b9884c57b50953bfe6e5acaa23025609efa"
    ),
    "software.amazon.awssdk:sdk-core:2.29.52": (
        "ea8e9856569f85075a8a806d0481c4bd848c98b24fd6d706fc0b5883fc4604dc"
    ),
    "software.amazon.awssdk:sts:2.29.52": (
        "6495d0457f4e4c3724d8c9c5fe4f6f98c9530a22f92449c4cca5fd03622e4edb"
    ),
    "software.amazon.awssdk:third-party-jackson-core:2.29.52": (
        "eaece3eb60beb8ec09d8a4f48d5bff4110010b03cc23688bdcf2af2eb075cac6"
    ),
    "software.amazon.awssdk:utils:2.29.52": (
        "f150a38f2fec14ced2de6459bfe804f647c88baa573b218646ef89b436a29d42"
    ),
    "software.amazon.eventstream:eventstream:1.0.1": (
        "0c37d8e696117f02c302191b8110b0d0eb20fa412fce34c3a269ec73c16ce822"
    ),
}
"""The SHA-256 of each jar, by its Maven coordinates."""
